package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const parentVariable = "PROCESS_TEST_PARENT_OF"

// TestMain lets the test binary also run as a supervising parent that a test kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		playParent(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func playParent(dir string) {
	s, err := NewSupervisor(dir)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"one", "two"} {
		p, err := s.Start(Spec{Name: name, Path: "/bin/sleep", Args: []string{"1000"}, Restart: true})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.Pid())
	}
	fmt.Println("ready")
	select {}
}

func newSupervisor(t *testing.T, dir string) *Supervisor {
	t.Helper()
	s, err := NewSupervisor(dir)
	runtest.Check(t, err)
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(t *testing.T, s *Supervisor, spec Spec) *Process {
	t.Helper()
	p, err := s.Start(spec)
	runtest.Check(t, err)
	return p
}

func shell(name, script string) Spec {
	return Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func running(pid int) bool {
	_, ok := startedAt(pid)
	return ok
}

func logged(t *testing.T, p *Process) string {
	t.Helper()
	content, err := os.ReadFile(p.Log())
	runtest.Check(t, err)
	return string(content)
}

func TestChildrenDieWithTheirKilledParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	out, err := parent.StdoutPipe()
	runtest.Check(t, err)
	runtest.Check(t, parent.Start())
	var pids []int
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("parent started %d children, want 2", len(pids))
	}
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("child %d ended before its parent", pid)
		}
	}

	runtest.Check(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("child %d of the killed parent ends", pid), func() bool { return !running(pid) })
	}
	newSupervisor(t, dir) // the folder is free again
}

func TestNewSupervisorKillsOnlyItsLeftovers(t *testing.T) {
	dir := t.TempDir()
	runtest.Check(t, os.Mkdir(filepath.Join(dir, "run"), 0o755))
	record := func(name string, change func(*identity)) int {
		cmd := exec.Command("/bin/sleep", "1000")
		runtest.Check(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		started, _ := startedAt(cmd.Process.Pid)
		id := identity{PID: cmd.Process.Pid, Path: "/bin/sleep", Started: started}
		// exec replaces the image a moment after the fork.
		eventually(t, "sleep runs", id.alive)
		change(&id)
		content, err := json.Marshal(id)
		runtest.Check(t, err)
		runtest.Check(t, os.WriteFile(filepath.Join(dir, "run", name+".pid"), content, 0o644))
		return id.PID
	}
	leftover := record("leftover", func(*identity) {})
	younger := record("younger", func(id *identity) { id.Started-- })
	other := record("other", func(id *identity) { id.Path = "/usr/bin/etcd" })
	runtest.Check(t, os.WriteFile(filepath.Join(dir, "run", "half.pid"), []byte(`{"pid":1`), 0o644))

	newSupervisor(t, dir)

	got := map[string]bool{"leftover": running(leftover), "younger": running(younger), "other": running(other)}
	if diff := cmp.Diff(map[string]bool{"leftover": false, "younger": true, "other": true}, got); diff != "" {
		t.Errorf("still running (-want +got):\n%s", diff)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "run", "*.pid")); len(files) > 0 {
		t.Errorf("pid files are left: %v", files)
	}
}

func TestSupervisorLocksItsFolder(t *testing.T) {
	dir := t.TempDir()
	first := newSupervisor(t, dir)
	if _, err := NewSupervisor(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("second supervisor: got %v, want %v", err, ErrInUse)
	}
	runtest.Check(t, first.Stop())
	newSupervisor(t, dir)
}

func TestStopEndsTheTopLayerFirst(t *testing.T) {
	dir := t.TempDir()
	s := newSupervisor(t, dir)
	order := filepath.Join(dir, "order")
	for layer, name := range []string{"etcd", "api", "controller", "workload"} {
		spec := shell(name, fmt.Sprintf(`trap 'echo %s >>%s; exit' TERM; echo up; while :; do sleep 0.01; done`, name, order))
		spec.Layer = Layer(layer)
		p := start(t, s, spec)
		eventually(t, name+" runs", func() bool { return strings.HasSuffix(logged(t, p), "up\n") })
	}
	runtest.Check(t, s.Stop())
	got, err := os.ReadFile(order)
	runtest.Check(t, err)
	if diff := cmp.Diff("workload\ncontroller\napi\netcd\n", string(got)); diff != "" {
		t.Errorf("order of the ends (-want +got):\n%s", diff)
	}
	if _, err := s.Start(shell("late", "true")); err == nil {
		t.Error("a stopped supervisor started a process")
	}
}

func TestProcessesAreRestartedOnlyIfTheSpecSaysSo(t *testing.T) {
	s := newSupervisor(t, t.TempDir())
	once := start(t, s, shell("once", "exit 3"))
	again := shell("again", "echo turn; exit 3")
	again.Restart = true
	p := start(t, s, again)

	eventually(t, "the program runs three times", func() bool { return strings.Count(logged(t, p), "turn\n") >= 3 })
	p.Stop()
	if p.Alive() {
		t.Error("a stopped process is alive")
	}
	<-once.Done()
	if n := strings.Count(logged(t, once), "###"); n != 1 {
		t.Errorf("a process without restart was started %d times", n)
	}
}

func TestKillAndStart(t *testing.T) {
	s := newSupervisor(t, t.TempDir())
	spec := shell("stubborn", "trap '' TERM; exec sleep 1000")
	spec.Restart = true
	p := start(t, s, spec)
	first := p.Pid()

	p.Kill()
	if p.Alive() || p.Pid() != 0 || running(first) {
		t.Error("a killed process is alive")
	}
	if _, err := os.Stat(p.pidFile()); !os.IsNotExist(err) {
		t.Errorf("pid file of a killed process: %v", err)
	}
	runtest.Check(t, p.Start())
	if second := p.Pid(); second == 0 || second == first {
		t.Errorf("pid after a new start is %d, was %d", second, first)
	}
	if err := p.Start(); err == nil {
		t.Error("a running process was started twice")
	}
	if _, err := s.Start(spec); err == nil {
		t.Error("two processes got one name")
	}
}

func TestAwaitErrorShowsTheEndOfTheLog(t *testing.T) {
	s := newSupervisor(t, t.TempDir())
	notReady := errors.New("not ready")
	tests := map[string]struct {
		script string
		probe  func(context.Context) error
		want   error
		says   string
	}{
		"ready": {script: "sleep 1000", probe: func(context.Context) error { return nil }},
		"it ends with a message": {
			script: "echo bind: address already in use; exit 1",
			probe:  func(context.Context) error { return notReady },
			want:   notReady, says: "address already in use",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := start(t, s, shell(strings.ReplaceAll(name, " ", "-"), test.script))
			err := p.Await(t.Context(), test.probe)
			if !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %q does not show the log with %q", err, test.says)
			}
		})
	}
}

func TestChildrenDoNotInheritTheUsersKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/me/.kube/config")
	s := newSupervisor(t, t.TempDir())
	spec := shell("env", `echo "kubeconfig=$KUBECONFIG own=$OWN"`)
	spec.Env = []string{"OWN=yes"}
	p := start(t, s, spec)
	<-p.Done()
	if got := logged(t, p); !strings.Contains(got, "kubeconfig= own=yes") {
		t.Errorf("environment of the child: %s", got)
	}
}
