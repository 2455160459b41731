package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dataLink is the symbolic link through which all files of a directory are reached, as in a
// volume that the kubelet fills.
const dataLink = "..data"

// Replace atomically replaces the files in dir with content, by file name: a reader sees all
// old files or all new ones. It creates dir if needed and keeps files that Replace did not
// create. If the process dies halfway, the next Replace removes what it left.
func Replace(dir string, content map[string][]byte) error {
	if err := replaceFiles(dir, content); err != nil {
		return fmt.Errorf("replace the files in %q: %w", dir, err)
	}
	return nil
}

func replaceFiles(dir string, content map[string][]byte) error {
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
	if err := replaceLink(filepath.Base(version), filepath.Join(dir, dataLink)); err != nil {
		return errors.Join(err, os.RemoveAll(version))
	}
	for name := range content {
		if err := replaceLink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return sweepVersions(dir, filepath.Base(version), content)
}

// replaceLink points the symbolic link at name to target, unless it already does.
func replaceLink(target, name string) error {
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

// sweepVersions removes older versions, and links to files that this version does not contain.
func sweepVersions(dir, version string, content map[string][]byte) error {
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
