package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// visible returns the files that a program sees in a folder.
func visible(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	runtest.Check(t, err)
	files := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		runtest.Check(t, err)
		files[e.Name()] = string(content)
	}
	return files
}

func TestReplaceFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	steps := []struct {
		name  string
		files contents
	}{
		{"the first files", contents{"tls.crt": []byte("1"), "tls.key": []byte("1")}},
		{"others in their place", contents{"tls.crt": []byte("2"), "tls.key": []byte("2")}},
		{"one more", contents{"tls.crt": []byte("2"), "tls.key": []byte("2"), "ca.crt": []byte("2")}},
		{"one less", contents{"tls.crt": []byte("2")}},
		{"none", contents{}},
	}
	for _, step := range steps {
		if err := replaceFiles(folder, step.files); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		want := map[string]string{}
		for name, content := range step.files {
			want[name] = string(content)
		}
		if diff := cmp.Diff(want, visible(t, folder)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if generations, _ := filepath.Glob(filepath.Join(folder, "..[0-9]*")); len(generations) != 1 {
			t.Errorf("%s: generations %q are left, want only the last", step.name, generations)
		}
	}
}

func TestUnchangedFilesAreNotReplaced(t *testing.T) {
	folder := t.TempDir()
	files := contents{"tls.crt": []byte("1")}
	for range 2 {
		runtest.Check(t, replaceFiles(folder, files))
	}
	before, err := os.Readlink(filepath.Join(folder, current))
	runtest.Check(t, err)
	runtest.Check(t, replaceFiles(folder, files))
	if after, _ := os.Readlink(filepath.Join(folder, current)); after != before {
		t.Errorf("the files lie in %q, were in %q", after, before)
	}
}

// TestReaderSeesFilesOfOneGeneration checks that a program that opens the folder once and reads both files gets a
// certificate and a key of the same issue.
func TestReaderSeesFilesOfOneGeneration(t *testing.T) {
	folder := t.TempDir()
	issue := func(n string) contents { return contents{"tls.crt": []byte(n), "tls.key": []byte(n)} }
	runtest.Check(t, replaceFiles(folder, issue("0")))
	done := make(chan error)
	go func() {
		var err error
		for i := range 200 {
			if err == nil {
				err = replaceFiles(folder, issue(strings.Repeat("x", i+1)))
			}
		}
		done <- err
	}()
	for reading := true; reading; {
		select {
		case err := <-done:
			runtest.Check(t, err)
			reading = false
		default:
		}
		generation, err := os.Readlink(filepath.Join(folder, current))
		runtest.Check(t, err)
		cert, err1 := os.ReadFile(filepath.Join(folder, generation, "tls.crt"))
		key, err2 := os.ReadFile(filepath.Join(folder, generation, "tls.key"))
		if err1 == nil && err2 == nil && string(cert) != string(key) {
			t.Fatalf("certificate %q with key %q", cert, key)
		}
	}
}
