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

// lookEvery is how often the file is read. A kubelet takes up to a minute to bring a
// ConfigMap into it.
const lookEvery = 2 * time.Second

// Keeper has what a file said last in force, unless that was wrong: then it is what the
// file said before. It is safe for concurrent use and is a Runnable of a manager, on
// every replica.
type Keeper struct {
	path    string
	clock   clock.WithTicker
	log     logr.Logger
	changed chan struct{}
	// apply is told of every configuration; nil if nobody is.
	apply func(*Configuration)

	// mu guards the following.
	mu sync.Mutex
	// content of all files that current was read from.
	content []byte
	current *Configuration
	problem error
}

// Open reads a file. That it is wrong is an error: nothing is in force yet.
func Open(path string, c clock.WithTicker, log logr.Logger) (*Keeper, error) {
	k := &Keeper{path: path, clock: c, log: log, changed: make(chan struct{}, 1)}
	k.look()
	if k.problem != nil {
		return nil, k.problem
	}
	return k, nil
}

// Follow has apply told of what is in force now and whenever that changes. It is called
// before Start.
func (k *Keeper) Follow(apply func(*Configuration)) {
	k.apply = apply
	apply(k.Current())
}

// Start reads the file until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	tick := k.clock.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			k.look()
		}
	}
}

// NeedLeaderElection lets every replica follow the file.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Changed receives after another configuration came into force, or one was refused, once
// for any number of times. It has one reader.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Current is the configuration in force. It is not to be changed.
func (k *Keeper) Current() *Configuration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Problem is why what the file says now is not in force, nil if it is.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// look takes what the file says, and tells of it.
func (k *Keeper) look() {
	news, taken := k.read()
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

// read the file again.
func (k *Keeper) read() (news, taken bool) {
	parsed, content, err := read(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		return k.refuse(fmt.Errorf("--config: %w", err)), false
	}
	if k.current != nil && k.problem == nil && bytes.Equal(content, k.content) {
		return false, false
	}
	k.content, k.current, k.problem = content, parsed, nil
	k.log.Info("configuration is in force", "file", k.path)
	return true, true
}

// Read a file, and what it names. Its error is one line, which names the file.
func Read(path string) (*Configuration, error) {
	c, _, err := read(path)
	return c, err
}

// read also returns the content of all files that were read.
func read(path string) (c *Configuration, content []byte, err error) {
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

// refuse says a problem once.
func (k *Keeper) refuse(problem error) (news bool) {
	if k.problem != nil && k.problem.Error() == problem.Error() {
		return false
	}
	k.problem = problem
	if k.current != nil {
		k.log.Error(problem, "configuration is refused, the one before stays in force")
	}
	return true
}
