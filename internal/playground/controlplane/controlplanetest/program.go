package controlplanetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programsVariable names the environment variable for a folder with the programs of the checkout. hack/test.sh sets
// it, so that a run links each program once.
const programsVariable = "LRB_PROGRAMS"

// Program returns the path of one of the checkout's programs, which is a folder of cmd. It builds the program if no
// folder with programs is given.
func Program(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv(programsVariable); dir != "" {
		return filepath.Join(dir, name)
	}
	path := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/mehdiazizian/liqo-resource-broker/cmd/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return path
}
