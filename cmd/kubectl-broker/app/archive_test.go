package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// krewManifest is the part of Krew's manifest that the test compares.
type krewManifest struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		ShortDescription string `json:"shortDescription"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

func TestArchiveIsWhatTheKrewManifestSays(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it builds a release with GNU tar")
	}
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "hack", "plugin.sh"), "v1.2.3", out)
	cmd.Env = append(os.Environ(), "PLATFORMS=linux/"+runtime.GOARCH)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	text, err := os.ReadFile(filepath.Join(out, "liqo-broker.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest krewManifest
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		// The parser is strict only about the fields above, because the rest is text.
		if err := yaml.Unmarshal(text, &manifest); err != nil {
			t.Fatal(err)
		}
	}
	if manifest.Metadata.Name != "liqo-broker" || manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.ShortDescription) > 50 || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("the manifest is %+v", manifest)
	}
	platform := manifest.Spec.Platforms[0]
	archive, err := os.ReadFile(filepath.Join(out, filepath.Base(platform.URI)))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != platform.SHA256 {
		t.Errorf("the archive's digest is %x, the manifest says %s", sum, platform.SHA256)
	}
	files := unpack(t, archive, out)
	want := []string{"LICENSE", "kubectl-broker", "kubectl_complete-broker", "kubectl_complete-liqo_broker"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files of the archive (-want +got):\n%s", diff)
	}
	if !slices.Contains(files, platform.Bin) {
		t.Errorf("the archive has no %s", platform.Bin)
	}
	// Krew installs the plugin under another name.
	linked := filepath.Join(out, "kubectl-liqo_broker")
	if err := os.Symlink(filepath.Join(out, platform.Bin), linked); err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), linked, "version").CombinedOutput()
	if err != nil || string(version) != "v1.2.3\n" {
		t.Errorf("version: %v, %s", err, version)
	}
	completed := exec.CommandContext(t.Context(), filepath.Join(out, "kubectl_complete-liqo_broker"), "reason", "PodsRej")
	completed.Env = append(os.Environ(), "PATH="+out+":"+os.Getenv("PATH"))
	if words, err := completed.Output(); err != nil || !bytes.HasPrefix(words, []byte("PodsRejected\n")) {
		t.Errorf("completion: %v, %s", err, words)
	}
}

// unpack writes the files of an archive to a folder and returns their names, sorted.
func unpack(t *testing.T, archive []byte, folder string) (names []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(header.Name)
		if err := os.WriteFile(filepath.Join(folder, name), content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
}
