package main

import (
	"archive/tar"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Two checkouts of a commit in different folders give identical images and SBOMs.
func TestBuildsOfACommitAreIdentical(t *testing.T) {
	first, second := builtFromACheckout(t, "a"), builtFromACheckout(t, "another/longer/folder")
	if diff := cmp.Diff(contents(t, first), contents(t, second)); diff != "" {
		t.Errorf("files (-first +second):\n%.2000s", diff)
	}
	for _, image := range []string{"broker", "agent"} {
		t.Run(image, func(t *testing.T) { checkImage(t, first, image) })
	}
}

// builtFromACheckout builds from a clone of the committed files, and returns the folder with the results.
func builtFromACheckout(t *testing.T, folder string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, folder)
	git(t, ".", "clone", "--quiet", git(t, ".", "rev-parse", "--show-toplevel"), source)
	created, err := strconv.ParseInt(git(t, source, "log", "-1", "--format=%ct"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		source: source, base: "scratch", platforms: []string{"linux/" + runtime.GOARCH}, repository: "example.com/project",
		tag: "v1.2.3", version: "v1.2.3", revision: git(t, source, "rev-parse", "HEAD"), created: created, out: filepath.Join(dir, "out"),
	}
	for _, path := range []string{"./cmd/broker", "./cmd/agent"} {
		if err := o.build(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	return o.out
}

func checkImage(t *testing.T, dir, name string) {
	image, err := tarball.ImageFromPath(filepath.Join(dir, name+".tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("runs as %q, want 65532:65532", config.Config.User)
	}
	if diff := cmp.Diff([]string{"/ko-app/" + name}, config.Config.Entrypoint); diff != "" {
		t.Fatalf("entrypoint (-want +got):\n%s", diff)
	}
	for label, want := range map[string]string{
		"org.opencontainers.image.version":  "v1.2.3",
		"org.opencontainers.image.source":   "https://github.com/mehdiazizian/liqo-resource-broker",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": git(t, ".", "rev-parse", "HEAD"),
	} {
		if got := config.Config.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	program := extract(t, image, config.Config.Entrypoint[0])
	checkStatic(t, program)
	checkVersion(t, program, name+" version v1.2.3")
	checkSBOM(t, program, filepath.Join(dir, name+"-linux-"+runtime.GOARCH+".spdx.json"))
}

// extract writes a file of an image to disk.
func extract(t *testing.T, image v1.Image, path string) string {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("the image has no %s", path)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != path {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
}

func checkStatic(t *testing.T, program string) {
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			t.Error("the program asks for a dynamic linker")
		}
	}
}

func checkVersion(t *testing.T, program, want string) {
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(said)); got != want {
		t.Errorf("the program calls itself %q, want %q", got, want)
	}
}

// checkSBOM compares an SBOM with the modules that "go version -m" finds in the program.
func checkSBOM(t *testing.T, program, sbom string) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		want[m.Path] = m.Version
	}
	content, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Packages []struct {
			Name         string
			VersionInfo  string
			ExternalRefs []struct{ ReferenceLocator string }
		}
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range document.Packages {
		isModule := len(p.ExternalRefs) == 1 && strings.HasPrefix(p.ExternalRefs[0].ReferenceLocator, "pkg:golang/")
		if isModule && p.Name != info.Main.Path {
			got[p.Name] = p.VersionInfo
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-program +SBOM):\n%s", diff)
	}
}

// contents returns the contents of the files in a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(content)
	}
	if want := 4; len(files) != want {
		t.Fatalf("%d files, want %d: %v", len(files), want, slices.Sorted(maps.Keys(files)))
	}
	return files
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
