package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// wallClock are the folders that may read the wall clock: the binaries' wiring, which passes it on, and the code that
// starts and measures real processes. All other code takes time as an argument, so that tests control it.
var wallClock = []string{"cmd", "internal/playground", "e2e"}

func TestTimeIsAnArgument(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.path(), wallClock...) {
			continue
		}
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			runtest.Check(t, err)
			for _, at := range clockReads(file) {
				t.Errorf("%s reads the wall clock: take a func() time.Time or a clock.Clock", files.Position(at))
			}
		}
	}
}

// clockReads returns the places where a file mentions time.Now, time.Since or time.Until.
func clockReads(file *ast.File) []token.Pos {
	local := importedAs(file, "time")
	if local == "" {
		return nil
	}
	var found []token.Pos
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, ok := selector.X.(*ast.Ident)
		if ok && from.Name == local && slices.Contains([]string{"Now", "Since", "Until"}, selector.Sel.Name) {
			found = append(found, selector.Pos())
		}
		return true
	})
	return found
}

// importedAs returns the name under which a file imports a package, "" if it does not.
func importedAs(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err != nil || value != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return filepath.Base(path)
	}
	return ""
}

func TestClockReadsAreFound(t *testing.T) {
	cases := map[string]struct {
		source string
		want   int
	}{
		"a call":                {`package p; import "time"; var x = time.Now()`, 1},
		"a value":               {`package p; import "time"; var now = time.Now`, 1},
		"under another name":    {`package p; import clock "time"; var x = clock.Since(clock.Time{})`, 1},
		"a duration is no read": {`package p; import "time"; var x = time.Second`, 0},
		"a method called Now":   {`package p; var x = t.Now()`, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "p.go", tc.source, 0)
			runtest.Check(t, err)
			if got := len(clockReads(file)); got != tc.want {
				t.Errorf("found %d, want %d", got, tc.want)
			}
		})
	}
}

// A main function only starts what its package app wires.
func TestMainsAreShort(t *testing.T) {
	const limit = 30
	mains, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	runtest.Check(t, err)
	if len(mains) == 0 {
		t.Fatal("there are no binaries")
	}
	for _, name := range mains {
		content, err := os.ReadFile(name)
		runtest.Check(t, err)
		if lines := bytes.Count(content, []byte("\n")); lines > limit {
			t.Errorf("%s has %d lines, more than %d: move what it does into its package app", name, lines, limit)
		}
	}
}
