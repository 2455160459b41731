package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dataLink is the one symbolic link through which all files of a directory are
// reached, as in a volume that the kubelet fills.
const dataLink = "..data"

// Replace makes content, by file name, what dir holds, in one step: a reader finds
// the old files or the new ones and never some of each. The directory is made if
// need be, and files that Replace did not put there are left alone. A process that
// dies within leaves the old files or the new; the rest of it goes the next time.
func Replace(dir string, content map[string][]byte) error {
	if err := replace(dir, content); err != nil {
		return fmt.Errorf("replace the files in %q: %w", dir, err)
	}
	return nil
}

func replace(dir string, content map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return err
	}
	for name, data := range content {
		if err := os.WriteFile(filepath.Join(version, name), data, 0o600); err != nil {
			return errors.Join(err, os.RemoveAll(version))
		}
	}
	if err := link(filepath.Base(version), filepath.Join(dir, dataLink)); err != nil {
		return errors.Join(err, os.RemoveAll(version))
	}
	for name := range content {
		if err := link(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return sweep(dir, filepath.Base(version), content)
}

// link turns the symbolic link at name to target, unless it points there already.
func link(target, name string) error {
	if at, err := os.Readlink(name); err == nil && at == target {
		return nil
	}
	next := filepath.Join(filepath.Dir(name), "..next-"+filepath.Base(name))
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// sweep removes older versions, and links to files that are not in this one.
func sweep(dir, version string, content map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		_, current := content[name]
		ours := strings.HasPrefix(name, "..") || entry.Type()&os.ModeSymlink != 0
		if current || name == dataLink || name == version || !ours {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
