package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_CHILD") != "" {
		Hit(ConsumerReady)
		Hit(ProviderGone)
		Hit(ProviderGone)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestArmedPointKillsOnce(t *testing.T) {
	tests := map[string]struct {
		armed []Point
		// killedBy lists the points that kill successive processes.
		killedBy []Point
	}{
		"nothing is armed":                                     {},
		"another point is armed":                               {armed: []Point{ConsumerDeleted}},
		"the point is armed":                                   {armed: []Point{ProviderGone}, killedBy: []Point{ProviderGone}},
		"two points, hit in order":                             {armed: []Point{ConsumerReady}, killedBy: []Point{ConsumerReady}},
		"a point that may be passed once and is hit twice":     {armed: []Point{ProviderGone.After(1)}, killedBy: []Point{ProviderGone}},
		"a point that may be passed more often than it is hit": {armed: []Point{ProviderGone.After(2)}},
		"several points are armed": {
			armed:    []Point{ProviderGone, ConsumerDeleted, ConsumerReady},
			killedBy: []Point{ConsumerReady, ProviderGone},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, p := range test.killedBy {
				if !killed(t, dir, test.armed) {
					t.Errorf("not killed by %q", p)
				}
				if _, err := os.Stat(filepath.Join(dir, string(p))); err != nil {
					t.Errorf("no marker is left: %v", err)
				}
			}
			if killed(t, dir, test.armed) {
				t.Error("killed once too often")
			}
		})
	}
}

func killed(t *testing.T, dir string, armed []Point) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "FAILPOINT_CHILD=1"), Arm(dir, armed...)...)
	err := cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatalf("no exit status: %v", err)
	}
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

func TestEveryPointIsListedOnce(t *testing.T) {
	seen := map[Point]bool{}
	for _, p := range slices.Concat(Consumer, Draining, Provider, Broker, Durable) {
		if seen[p] {
			t.Errorf("%q is listed twice", p)
		}
		seen[p] = true
	}
}

func TestEveryPointIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(Consumer, Draining, Provider, Broker, Durable) {
		if !strings.Contains(string(page), "`"+string(p)+"`") {
			t.Errorf("docs/testing.md does not list %q", p)
		}
	}
}
