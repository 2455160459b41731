package release

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// current is the name of a symbolic link to the folder with the current files. Each file of the volume is a link to a
// file below it. Therefore one rename replaces all files at once, as with a kubelet, and a program never reads a
// certificate and the key of another certificate.
const current = "..data"

// replaceFiles replaces the files in the folder of a volume, unless it already contains the same files.
func replaceFiles(folder string, files contents) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if same(folder, files) {
		return nil
	}
	fresh, err := os.MkdirTemp(folder, "..")
	if err != nil {
		return err
	}
	for name, content := range files {
		if strings.ContainsRune(name, filepath.Separator) {
			return fmt.Errorf("file %q of a volume lies in a folder, which is not supported", name)
		}
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o600); err != nil {
			return err
		}
	}
	former, err := os.Readlink(filepath.Join(folder, current))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := replaceLink(folder, filepath.Base(fresh), current); err != nil {
		return err
	}
	if err := linkFiles(folder, files); err != nil {
		return err
	}
	if former == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(folder, former))
}

// linkFiles creates the links that programs read. It removes the links to files that no longer exist.
func linkFiles(folder string, files contents) error {
	for name := range files {
		if err := replaceLink(folder, filepath.Join(current, name), name); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, kept := files[entry.Name()]; kept || strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// replaceLink makes name a symbolic link to target.
func replaceLink(folder, target, name string) error {
	if now, err := os.Readlink(filepath.Join(folder, name)); err == nil && now == target {
		return nil
	}
	fresh := filepath.Join(folder, "..link")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(folder, name))
}

func same(folder string, files contents) bool {
	entries, err := os.ReadDir(filepath.Join(folder, current))
	if err != nil || len(entries) != len(files) {
		return false
	}
	for _, entry := range entries {
		wanted, ok := files[entry.Name()]
		if !ok {
			return false
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil || !bytes.Equal(content, wanted) {
			return false
		}
	}
	return true
}
