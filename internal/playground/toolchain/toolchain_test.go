package toolchain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// checkout returns the toolchain of a repository whose only tool is a small program, and this
// tool.
func checkout(t *testing.T, report progress.Reporter) (*Toolchain, Tool) {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "hack", "greet", "go.mod"), "module example.org/greet\n\ngo 1.26\n")
	write(t, filepath.Join(root, "hack", "greet", "go.sum"), "")
	write(t, filepath.Join(root, "hack", "greet", "main.go"), "package main\n\nfunc main() { println(\"hello\") }\n")
	tool := Tool{Name: "greet", Module: "greet", Package: "example.org/greet"}
	return &Toolchain{root: root, bin: filepath.Join(root, ".cache", "bin"), progress: report}, tool
}

func write(t *testing.T, name, content string) {
	t.Helper()
	runtest.Check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	runtest.Check(t, os.WriteFile(name, []byte(content), 0o644))
}

func TestEnsureBuildsWhatIsMissingOrOutdated(t *testing.T) {
	var built []string
	tools, greet := checkout(t, progress.Func(func(step string) { built = append(built, step) }))
	steps := []struct {
		name   string
		change func()
		builds bool
	}{
		{name: "the first time", change: func() {}, builds: true},
		{name: "nothing changed", change: func() {}},
		{name: "a pin changed", builds: true, change: func() {
			write(t, filepath.Join(tools.root, "hack", "greet", "go.mod"), "module example.org/greet\n\ngo 1.26.0\n")
		}},
		{name: "a checksum changed", builds: true, change: func() {
			write(t, filepath.Join(tools.root, "hack", "greet", "go.sum"), "\n")
		}},
		{name: "a source in this repository changed", builds: true, change: func() {
			write(t, filepath.Join(tools.root, "hack", "greet", "main.go"), "package main\n\nfunc main() { println(\"hi\") }\n")
		}},
		{name: "the binary was removed", builds: true, change: func() {
			runtest.Check(t, os.Remove(tools.Path(greet)))
		}},
		{name: "the stamp is of a build that was cut off", builds: true, change: func() {
			write(t, tools.stampFile(greet), "half")
		}},
	}
	for _, step := range steps {
		step.change()
		built = nil
		if err := tools.Ensure(t.Context(), greet); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := len(built) == 1; got != step.builds {
			t.Errorf("%s: built %v, want a build: %v", step.name, built, step.builds)
		}
	}
}

func TestEnsureRunsConcurrently(t *testing.T) {
	tools, greet := checkout(t, progress.Discard)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := tools.Ensure(t.Context(), greet); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	stamp, err := tools.stamp(greet)
	runtest.Check(t, err)
	if !tools.isFresh(greet, stamp) {
		t.Errorf("%q is not fresh after four concurrent builds", greet.Name)
	}
}

func TestLockWaitEndsWithItsContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), name)
	runtest.Check(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second lock: got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestBuildErrorsNameTheModule(t *testing.T) {
	tools, greet := checkout(t, progress.Discard)
	write(t, filepath.Join(tools.root, "hack", "greet", "main.go"), "package main\n")
	if err := tools.Ensure(t.Context(), greet); err == nil {
		t.Error("a program without main was built")
	}
}

func TestPatchMustMatchOnce(t *testing.T) {
	tests := map[string]struct {
		source, want string
		fits         bool
	}{
		"the text is there":       {source: `dir = "/tmp/certs/"`, want: `dir = "certs/"`, fits: true},
		"the text is gone":        {source: `dir = os.TempDir()`, want: `dir = os.TempDir()`},
		"the text is there twice": {source: `"/tmp/certs/" "/tmp/certs/"`, want: `"/tmp/certs/" "/tmp/certs/"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "pkg", "dir.go")
			write(t, file, test.source)
			err := Patch{File: "pkg/dir.go", Old: `"/tmp/certs/"`, New: `"certs/"`}.apply(dir)
			if fits := err == nil; fits != test.fits {
				t.Errorf("apply: %v, want success: %v", err, test.fits)
			}
			got, err := os.ReadFile(file)
			runtest.Check(t, err)
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("patched source (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewFindsTheCheckoutFromAFolderInside(t *testing.T) {
	tools, err := New(progress.Discard)
	runtest.Check(t, err)
	if _, err := os.Stat(filepath.Join(tools.Root(), "go.mod")); err != nil {
		t.Errorf("root %q: %v", tools.Root(), err)
	}
	for _, tool := range []Tool{Etcd, APIServer, ControllerManager, Scheduler, Kubectl, KWOK,
		LiqoControllerManager, LiqoCRDReplicator, LiqoWebhook, LiqoVirtualKubelet, Liqoctl} {
		if _, err := tools.stamp(tool); err != nil {
			t.Error(err)
		}
	}
}

func TestToolsAreFoundByName(t *testing.T) {
	got, err := Named("kubelet", "etcd")
	runtest.Check(t, err)
	if diff := cmp.Diff([]Tool{Kubelet, Etcd}, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if _, err := Named("etcd", "kubecube"); err == nil || !strings.Contains(err.Error(), `"kubecube"`) {
		t.Errorf("an unknown name gives %v", err)
	}
}
