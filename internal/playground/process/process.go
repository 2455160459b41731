package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Layer decides the order in which processes are stopped: those of a higher layer first.
type Layer int

// Layers, the lowest first.
const (
	Storage Layer = iota
	API
	Controller
	Workload
)

// Spec describes a program to run.
type Spec struct {
	// Name is unique in a supervisor. The log is logs/<Name>.log.
	Name string
	// Path is the path of the program.
	Path string
	Args []string
	// Env is the environment of the program, in addition to the few variables that every process gets.
	Env []string
	// Dir is the working directory. Default: the supervisor's folder.
	Dir string
	// Layer decides in which order the process is stopped.
	Layer Layer
	// Restart makes the supervisor start the program again when it ends by itself.
	Restart bool
	// Backoff is the longest pause before a restart. Default: 5 s.
	Backoff time.Duration
}

const (
	stopGrace      = 5 * time.Second // from SIGTERM to SIGKILL
	firstBackoff   = 200 * time.Millisecond
	defaultBackoff = 5 * time.Second // default of Spec.Backoff
	// steady is how long a program must run without ending. Then the pause before its next restart is short again.
	steady   = 10 * time.Second
	logLimit = 16 << 20
)

// Process is a supervised program. Its methods may be called concurrently.
type Process struct {
	supervisor *Supervisor
	spec       Spec

	change sync.Mutex // serializes starts and stops

	mu   sync.Mutex // guards the fields below
	life *life
	cmd  *exec.Cmd
}

// life is the time from a start of the process until it has ended and is not restarted.
type life struct {
	end  context.CancelFunc
	done chan struct{}
	err  error // why the program ended; set once done is closed
}

// Name returns the name of the process. It is unique in its supervisor.
func (p *Process) Name() string { return p.spec.Name }

// Log returns the path of the file with the program's output.
func (p *Process) Log() string {
	return filepath.Join(p.supervisor.dir, "logs", p.spec.Name+".log")
}

// Pid returns the process ID of the running program, 0 if none runs.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Alive reports whether the process runs or is about to be restarted.
func (p *Process) Alive() bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// Done returns a channel that is closed when the process has ended and will not be restarted. It is closed already if
// the process does not run.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return p.life.done
}

// Err returns why the program ended, or nil if it ended without an error. It may be called once Done is closed.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return nil
	}
	return p.life.err
}

// Start starts the program. It returns an error if the program is running or is about to be restarted.
func (p *Process) Start() error {
	p.change.Lock()
	defer p.change.Unlock()
	if p.Alive() {
		return fmt.Errorf("process %q is running already", p.spec.Name)
	}
	cmd, err := p.startProgram()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	l := &life{end: end, done: make(chan struct{})}
	p.mu.Lock()
	p.life = l
	p.mu.Unlock()
	go p.keepRunning(ctx, l, cmd)
	return nil
}

// Stop asks the program to end, and kills it if it has not ended after 5 s.
func (p *Process) Stop() { p.stopWith(syscall.SIGTERM) }

// Kill ends the program at once, as if it had crashed. It is not restarted until Start is called.
func (p *Process) Kill() { p.stopWith(syscall.SIGKILL) }

// Restart stops and starts the program.
func (p *Process) Restart() error {
	p.Stop()
	return p.Start()
}

func (p *Process) stopWith(sig syscall.Signal) {
	p.change.Lock()
	defer p.change.Unlock()
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l == nil {
		return
	}
	l.end()
	p.signal(sig)
	timer := p.supervisor.clock.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C():
		p.signal(syscall.SIGKILL)
		<-l.done
	}
}

// signal sends a signal to the program if it runs. cmd.Process cannot reach a later process with the same pid.
func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // it may just have ended
	}
}

// keepRunning waits until the program ends, and restarts it if the Spec says so. It returns when the program has ended
// and is not restarted.
func (p *Process) keepRunning(ctx context.Context, l *life, cmd *exec.Cmd) {
	defer close(l.done)
	longest := cmp.Or(p.spec.Backoff, defaultBackoff)
	backoff := min(firstBackoff, longest)
	for {
		begun := p.supervisor.clock.Now()
		l.err = p.await(cmd)
		if p.supervisor.clock.Since(begun) > steady {
			backoff = min(firstBackoff, longest)
		}
		for cmd = nil; cmd == nil; backoff = min(2*backoff, longest) {
			if !p.spec.Restart || !p.pause(ctx, backoff) {
				return
			}
			cmd, l.err = p.startProgram()
		}
		if ctx.Err() != nil { // the process was stopped while the program started
			p.signal(syscall.SIGKILL)
		}
	}
}

func (p *Process) await(cmd *exec.Cmd) error {
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	_ = os.Remove(p.pidFile()) // reap detects a stale file
	return err
}

func (p *Process) pause(ctx context.Context, d time.Duration) bool {
	timer := p.supervisor.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

func (p *Process) startProgram() (*exec.Cmd, error) {
	log, err := p.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has a descriptor of its own
	//nolint:noctx // it lives until the supervisor stops it
	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Dir = p.spec.Dir
	if cmd.Dir == "" {
		cmd.Dir = p.supervisor.dir
	}
	cmd.Env = append(cleanEnvironment(), p.spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// The child has a process group of its own, so that Ctrl-C in the terminal does not reach it. The supervisor
	// stops it in the right order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.supervisor.onForkThread(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %q: %w", p.spec.Name, err)
	}
	p.mu.Lock()
	p.cmd = cmd
	p.mu.Unlock()
	if err := p.writePidFile(cmd.Process.Pid); err != nil {
		p.signal(syscall.SIGKILL)
		return nil, errors.Join(err, p.await(cmd))
	}
	return cmd, nil
}

// openLog opens the log for appending, and writes the command as the first new line. A log that is longer than logLimit
// is first renamed to NAME.log.old.
func (p *Process) openLog() (*os.File, error) {
	if info, err := os.Stat(p.Log()); err == nil && info.Size() > logLimit {
		if err := os.Rename(p.Log(), p.Log()+".old"); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(log, "### %s %s\n", p.spec.Path, strings.Join(p.spec.Args, " ")); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// cleanEnvironment returns a few variables of this process. It omits all others, because they may point to the
// user's own clusters or proxy.
func cleanEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "GOMAXPROCS", "GOGC", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Await calls probe repeatedly until it succeeds. It fails if the process has ended and is not restarted, or if
// ctx ends. The error contains the probe's last error and the end of the log.
func (p *Process) Await(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := p.Done()
	go func() {
		select {
		case <-done:
			cancel(errors.New("process has ended"))
		case <-ctx.Done():
		}
	}()
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := probe(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for process %q: %w; log %q ends with:\n%s",
			p.spec.Name, errors.Join(context.Cause(ctx), last), p.Log(), p.tail())
	}
	return nil
}

// tail returns the end of the log, for error messages.
func (p *Process) tail() string {
	const limit = 1500
	content, err := os.ReadFile(p.Log())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content[max(0, len(content)-limit):]))
}
