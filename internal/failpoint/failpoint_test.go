package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_CHILD") != "" {
		Hit(ConsumerReady)
		Hit(ProviderGone)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAnArmedPointKillsOnce(t *testing.T) {
	dir := t.TempDir()
	tests := map[string]struct {
		point      Point
		wantKilled bool
	}{
		"nothing is armed":                   {point: "", wantKilled: false},
		"another point is armed":             {point: ConsumerDeleted, wantKilled: false},
		"the point is armed":                 {point: ProviderGone, wantKilled: true},
		"a point that is hit before another": {point: ConsumerReady, wantKilled: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := killed(t, test.point, dir); got != test.wantKilled {
				t.Errorf("killed: got %v, want %v", got, test.wantKilled)
			}
			if killed(t, test.point, dir) {
				t.Error("killed again after a restart")
			}
			_, err := os.Stat(filepath.Join(dir, string(test.point)))
			if test.wantKilled && err != nil {
				t.Errorf("no marker is left: %v", err)
			}
		})
	}
}

func killed(t *testing.T, p Point, dir string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAILPOINT_CHILD=1", EnvName+"="+string(p), EnvOnce+"="+dir)
	err := cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatalf("no exit status: %v", err)
	}
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

func TestEveryPointIsListedOnce(t *testing.T) {
	seen := map[Point]bool{}
	for _, p := range Agent {
		if seen[p] {
			t.Errorf("%q is listed twice", p)
		}
		seen[p] = true
	}
}
