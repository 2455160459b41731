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

// pollInterval is how often the file is read. The kubelet takes up to a minute to update the file
// after the ConfigMap has changed, so a shorter interval would gain little.
const pollInterval = 2 * time.Second

// Keeper keeps the last valid configuration of a file in force. It is safe for concurrent use.
type Keeper struct {
	path    string
	clock   clock.WithTicker
	log     logr.Logger
	changed chan struct{}
	// check refuses a configuration that the agent's flags rule out; it may be nil.
	check func(*Configuration) error
	// apply is called with every configuration that comes into force; it may be nil.
	apply func(*Configuration)

	// mu protects the fields below.
	mu sync.Mutex
	// content is what the file contained when current was read, followed by the content of the prices
	// file if there is one.
	content []byte
	current *Configuration
	problem error
}

// Open reads a file and returns a Keeper for it. It returns an error if the file is invalid,
// because there is no earlier configuration to keep. A configuration is also invalid if check, which may
// be nil, returns an error.
func Open(path string, check func(*Configuration) error, c clock.WithTicker, log logr.Logger) (*Keeper, error) {
	k := &Keeper{path: path, check: check, clock: c, log: log, changed: make(chan struct{}, 1)}
	k.reloadFile()
	if k.problem != nil {
		return nil, k.problem
	}
	return k, nil
}

// Follow calls apply with the configuration in force now, and after every change with the new one.
// Call it before Start.
func (k *Keeper) Follow(apply func(*Configuration)) {
	k.apply = apply
	apply(k.Current())
}

// Start reads the file at every pollInterval until ctx ends.
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

// NeedLeaderElection returns false: every replica reads the file.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Changed returns a channel that receives a value after a configuration came into force or was
// rejected. Several changes may cause only one value. The channel must have only one reader.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Current returns the configuration in force. Do not modify it.
func (k *Keeper) Current() *Configuration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Problem returns why the current content of the file is not in force, or nil if it is.
func (k *Keeper) Problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.problem
}

// reloadFile reads the file again. If the configuration that it read came into force, it calls
// apply. It signals on changed after a new configuration or a new problem.
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

// readFile reads the file again and updates the state. taken is true if the configuration that it
// read came into force: its content is new, or the previous reading failed. news is true if taken
// is true, or if there is a new problem.
func (k *Keeper) readFile() (news, taken bool) {
	parsed, content, err := readAll(k.path, k.check)
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

// Read reads a file and the files that it refers to, and checks the configuration as Open does. Its error
// is a single line that names the file.
func Read(path string, check func(*Configuration) error) (*Configuration, error) {
	c, _, err := readAll(path, check)
	return c, err
}

// readAll does what Read does. It also returns the content of all files that it has read, one after
// the other, or nil if it fails.
func readAll(path string, check func(*Configuration) error) (c *Configuration, content []byte, err error) {
	open := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		content = append(content, text...)
		return text, err
	}
	text, err := open(path)
	if err == nil {
		c, err = Parse(text, open)
	}
	if err == nil && check != nil {
		err = check(c)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return c, content, nil
}

// recordProblem records a problem and reports whether it differs from the previous one. It logs a
// new problem, unless no configuration is in force yet: then Open returns the problem.
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
