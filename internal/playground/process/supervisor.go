package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"k8s.io/utils/clock"
)

// ErrInUse means that another process has locked a file, or the folder of a supervisor.
var ErrInUse = errors.New("in use by another process")

// Supervisor starts processes, and stops all of them in the end.
type Supervisor struct {
	dir   string
	clock clock.WithTicker
	lock  *os.File
	forks chan func()

	mu        sync.Mutex // guards the fields below
	closed    bool
	processes []*Process // in the order in which Supervisor.Start started them
}

// NewSupervisor returns a supervisor that keeps its logs and pid files in a folder. It locks the folder until Stop
// or Kill, and kills the processes that a crashed supervisor of the same folder has left.
func NewSupervisor(dir string) (*Supervisor, error) {
	for _, sub := range []string{"logs", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	lock, err := Hold(filepath.Join(dir, "run", "lock"))
	if err != nil {
		return nil, err
	}
	s := &Supervisor{dir: dir, clock: clock.RealClock{}, lock: lock, forks: make(chan func())}
	if err := s.reap(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	go s.runForks()
	return s, nil
}

// Hold locks a file. The lock ends when the returned file is closed or this process ends, even by a crash. Hold
// returns ErrInUse if another process has the lock.
func Hold(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("lock %q: %w", name, err), file.Close())
	}
	return file, nil
}

// runForks starts all children on one thread of the operating system. The kernel sends the parent-death signal to
// a child when the thread that started it ends, and Go may end an idle thread at any time. This thread is locked
// to this function, so it ends only when the function returns.
func (s *Supervisor) runForks() {
	runtime.LockOSThread()
	for f := range s.forks {
		f()
	}
}

// onForkThread calls f on the thread that starts all children, and returns the result.
func (s *Supervisor) onForkThread(f func() error) error {
	result := make(chan error, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("supervisor has stopped")
	}
	s.forks <- func() { result <- f() }
	return <-result
}

// Start runs a program. If a process with the same name has stopped, Start replaces it; if it is alive, Start returns
// an error.
func (s *Supervisor) Start(spec Spec) (*Process, error) {
	if p, ok := s.Process(spec.Name); ok && p.Alive() {
		return nil, fmt.Errorf("process %q is running already", spec.Name)
	}
	p := &Process{supervisor: s, spec: spec}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(old *Process) bool { return old.spec.Name == spec.Name })
	s.processes = append(s.processes, p)
	return p, nil
}

// Process returns the process with a name; false if none was started with it.
func (s *Supervisor) Process(name string) (*Process, bool) {
	for _, p := range s.Processes() {
		if p.spec.Name == name {
			return p, true
		}
	}
	return nil, false
}

// Processes returns all processes that were started, running or not.
func (s *Supervisor) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// Remove stops the process with a name, if there is one, and removes it from the supervisor.
func (s *Supervisor) Remove(name string) {
	p, ok := s.Process(name)
	if !ok {
		return
	}
	p.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(q *Process) bool { return p == q })
}

// Stop ends all processes, those of the highest layer first, and unlocks the folder. It may be called more than
// once.
func (s *Supervisor) Stop() error {
	byLayer := map[Layer][]*Process{}
	for _, p := range s.Processes() {
		byLayer[p.spec.Layer] = append(byLayer[p.spec.Layer], p)
	}
	for layer := Workload; layer >= Storage; layer-- {
		var wg sync.WaitGroup
		for _, p := range byLayer[layer] {
			wg.Go(p.Stop)
		}
		wg.Wait()
	}
	return s.close()
}

// Kill ends all processes at once with SIGKILL. Use it only if their state will be deleted.
func (s *Supervisor) Kill() error {
	var wg sync.WaitGroup
	for _, p := range s.Processes() {
		wg.Go(p.Kill)
	}
	wg.Wait()
	return s.close()
}

func (s *Supervisor) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.forks)
	return s.lock.Close()
}
