package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// identity identifies a process, even if a later process has the same pid.
type identity struct {
	PID     int    `json:"pid"`
	Path    string `json:"path"`
	Started uint64 `json:"started"` // clock ticks since boot
}

func (p *Process) pidFile() string {
	return filepath.Join(p.supervisor.dir, "run", p.spec.Name+".pid")
}

func (p *Process) writePidFile(pid int) error {
	started, _ := startedAt(pid) // 0 if the process has ended already; it then matches no later process
	content, err := json.Marshal(identity{PID: pid, Path: p.spec.Path, Started: started})
	if err != nil {
		return err
	}
	return os.WriteFile(p.pidFile(), content, 0o644)
}

// reap kills the processes that are named in the folder's pid files and are still alive.
func (s *Supervisor) reap() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "run", "*.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var id identity
		// An incomplete file is ignored, because its process died together with the supervisor.
		if json.Unmarshal(content, &id) == nil && id.alive() {
			if err := id.kill(); err != nil {
				return err
			}
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// alive reports whether the process with this pid is still the same program with the same
// start time.
func (id identity) alive() bool {
	started, ok := startedAt(id.PID)
	if !ok || started != id.Started {
		return false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
	if err != nil {
		return false
	}
	program, _, _ := bytes.Cut(cmdline, []byte{0})
	return string(program) == id.Path
}

func (id identity) kill() error {
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill leftover process %d (%s): %w", id.PID, id.Path, err)
	}
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, stopGrace, true,
		func(context.Context) (bool, error) { return !id.alive(), nil })
	if err != nil {
		return fmt.Errorf("leftover process %d (%s) does not die: %w", id.PID, id.Path, err)
	}
	return nil
}

// startedAt returns the start time of a process, in clock ticks since the machine was booted. ok is
// false if the process is not alive. A zombie is not alive.
func startedAt(pid int) (ticks uint64, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is the name in parentheses. It may itself contain spaces and
	// parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, startTime = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	if len(fields) <= startTime || fields[state] == "Z" || fields[state] == "X" {
		return 0, false
	}
	ticks, err = strconv.ParseUint(fields[startTime], 10, 64)
	return ticks, err == nil
}
