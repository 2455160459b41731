package configuration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// pollInterval is how often the file is read. The kubelet takes up to a minute to propagate a
// ConfigMap.
const pollInterval = 2 * time.Second

// Keeper keeps the last valid configuration of a file in force. It is safe for concurrent use
// and is a Runnable of a manager, on every replica.
type Keeper struct {
	path    string
	clock   clock.WithTicker
	log     logr.Logger
	changed chan struct{}
	// apply receives every configuration that comes into force; may be nil.
	apply func(*Configuration)

	// mu guards the following.
	mu sync.Mutex
	// content of all files that current was read from.
	content []byte
	current *Configuration
	problem error
}

// Open reads a file. An invalid file is an error, because no earlier configuration is in force.
func Open(path string, c clock.WithTicker, log logr.Logger) (*Keeper, error) {
	k := &Keeper{path: path, clock: c, log: log, changed: make(chan struct{}, 1)}
	k.reloadFile()
	if k.problem != nil {
		return nil, k.problem
	}
	return k, nil
}

// Follow calls apply with the configuration in force, and again whenever it changes. Call it
// before Start.
func (k *Keeper) Follow(apply func(*Configuration)) {
	k.apply = apply
	apply(k.Current())
}

// Start rereads the file until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	tick := k.clock.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			k.reloadFile()
		}
	}
}

// NeedLeaderElection is false: every replica follows the file.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Changed receives after a configuration came into force or was refused; several changes may be
// merged. It has one reader.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Current returns the configuration in force. Do not modify it.
func (k *Keeper) Current() *Configuration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Problem returns why the present content of the file is not in force; nil if it is.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// reloadFile reads the file and announces a change.
func (k *Keeper) reloadFile() {
	news, taken := k.readFile()
	if taken && k.apply != nil {
		k.apply(k.Current())
	}
	if !news {
		return
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// readFile reads the file again.
func (k *Keeper) readFile() (news, taken bool) {
	parsed, content, err := readAll(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		return k.recordProblem(fmt.Errorf("--config: %w", err)), false
	}
	if k.current != nil && k.problem == nil && bytes.Equal(content, k.content) {
		return false, false
	}
	k.content, k.current, k.problem = content, parsed, nil
	k.log.Info("configuration loaded", "file", k.path)
	return true, true
}

// Read reads a file and the files that it names. Its error is one line that names the file.
func Read(path string) (*Configuration, error) {
	c, _, err := readAll(path)
	return c, err
}

// readAll also returns the content of all files read.
func readAll(path string) (c *Configuration, content []byte, err error) {
	open := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		content = append(content, text...)
		return text, err
	}
	text, err := open(path)
	if err == nil {
		c, err = Parse(text, open)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return c, content, nil
}

// recordProblem records a problem and logs it once.
func (k *Keeper) recordProblem(problem error) (news bool) {
	if k.problem != nil && k.problem.Error() == problem.Error() {
		return false
	}
	k.problem = problem
	if k.current != nil {
		k.log.Error(problem, "configuration refused, the previous one stays in force")
	}
	return true
}
