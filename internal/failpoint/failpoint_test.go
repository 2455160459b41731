package failpoint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
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

// The tests that kill processes take their points from the lists, so a point that no list has is never tested.
func TestEveryPointIsInExactlyOneList(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "failpoint.go", nil, parser.SkipObjectResolution)
	runtest.Check(t, err)
	var points []string
	lists := map[string][]string{} // by point
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			name := value.Names[0].Name
			if kind, ok := value.Type.(*ast.Ident); ok && kind.Name == "Point" {
				points = append(points, name)
			}
			if len(value.Values) == 0 {
				continue
			}
			if list, ok := value.Values[0].(*ast.CompositeLit); ok {
				for _, element := range list.Elts {
					point := element.(*ast.Ident).Name
					lists[point] = append(lists[point], name)
				}
			}
		}
	}
	if len(points) == 0 {
		t.Error("failpoint.go declares no points")
	}
	for _, point := range points {
		if len(lists[point]) != 1 {
			t.Errorf("%s is in the lists %q, want exactly one", point, lists[point])
		}
	}
}
