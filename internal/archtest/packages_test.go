// Package archtest enforces rules that no linter knows: which packages import which, what the docs must mention, and
// where time comes from.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const module = "github.com/mehdiazizian/liqo-resource-broker"

// root is the module's folder, relative to this package.
const root = "../.."

// pkg is a package of this module.
type pkg struct {
	Dir          string
	ImportPath   string
	Name         string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// path returns the package's folder within the module.
func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// ownImports returns the imports from this module, as folders within it.
func (p pkg) ownImports() []string {
	var out []string
	for _, name := range p.Imports {
		if short, ok := strings.CutPrefix(name, module+"/"); ok {
			out = append(out, short)
		}
	}
	return out
}

// listPackages runs go list once for all tests.
var listPackages = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list",
		"-json=Dir,ImportPath,Name,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := listPackages()
	runtest.Check(t, err)
	return all
}

// findPackage returns the package in a folder of the module.
func findPackage(t *testing.T, path string) pkg {
	t.Helper()
	all := packages(t)
	i := slices.IndexFunc(all, func(p pkg) bool { return p.path() == path })
	if i < 0 {
		t.Fatalf("there is no package in %q", filepath.Join(root, path))
	}
	return all[i]
}

// within reports whether a folder is one of the trees or below it.
func within(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool {
		return path == tree || strings.HasPrefix(path, tree+"/")
	})
}
