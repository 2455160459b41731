package pki_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestReplaceLeavesOnlyGivenFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	for _, content := range []map[string][]byte{
		{pki.CertFile: []byte("1"), pki.KeyFile: []byte("1"), pki.AgentsCAFile: []byte("1")},
		{pki.CertFile: []byte("2"), pki.KeyFile: []byte("2")},
		{pki.CertFile: []byte("3"), pki.KeyFile: []byte("3"), pki.CAFile: []byte("3")},
	} {
		runtest.Check(t, pki.Replace(dir, content))
		if diff := cmp.Diff(content, held(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func TestReplaceKeepsForeignFiles(t *testing.T) {
	dir := t.TempDir()
	write(pki.CertFile, []byte("by hand"))(t, dir)
	write("notes.txt", []byte("by hand"))(t, dir)
	runtest.Check(t, pki.Replace(dir, map[string][]byte{pki.CertFile: []byte("1")}))
	want := map[string][]byte{pki.CertFile: []byte("1"), "notes.txt": []byte("by hand")}
	if diff := cmp.Diff(want, held(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReplaceRecoversFromKilledProcess(t *testing.T) {
	dir := t.TempDir()
	for _, leftover := range []error{
		os.Symlink("..version-gone", filepath.Join(dir, "..next-"+pki.DataLink)),
		os.Symlink("..version-gone", filepath.Join(dir, pki.DataLink)),
		os.Mkdir(filepath.Join(dir, "..version-half"), 0o700),
		os.Symlink(filepath.Join(pki.DataLink, pki.CertFile), filepath.Join(dir, pki.CertFile)),
	} {
		if leftover != nil {
			t.Fatal(leftover)
		}
	}
	want := map[string][]byte{pki.CertFile: []byte("1"), pki.KeyFile: []byte("1")}
	runtest.Check(t, pki.Replace(dir, want))
	if diff := cmp.Diff(want, held(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	entries, err := filepath.Glob(filepath.Join(dir, "..version-*"))
	if err != nil || len(entries) != 1 {
		t.Errorf("versions %v, %v; want the one in use", entries, err)
	}
}

// TestFilesNeverReturnsMixedCredentials checks that certificate, key and roots returned by pki.Files
// always belong together.
func TestFilesNeverReturnsMixedCredentials(t *testing.T) {
	authorities := []*pkitest.Authority{newAuthority(t), newAuthority(t)}
	dir := t.TempDir()
	save(t, authorities[0], "rome", dir)
	files, err := pki.OpenFiles(dir, func() time.Time { return testTime })
	runtest.Check(t, err)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := files.Current()
				if err != nil {
					t.Errorf("Current: %v", err)
					return
				}
				if err := c.Certificate.Leaf.CheckSignatureFrom(c.ServerRoots[0]); err != nil {
					t.Errorf("certificate and CA are of different issues: %v", err)
					return
				}
			}
		})
	}
	for i := range 200 {
		save(t, authorities[i%2], "rome", dir)
	}
	close(done)
	readers.Wait()
	if err := files.Problem(); err != nil {
		t.Errorf("in the end: %v", err)
	}
}

func held(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	runtest.Check(t, err)
	found := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		runtest.Check(t, err)
		found[filepath.Base(name)] = content
	}
	return found
}
