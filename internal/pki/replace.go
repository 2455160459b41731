package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// dataLink is the symbolic link to the folder with the current version of all files. The
// kubelet uses the same name in the volumes that it fills.
const dataLink = "..data"

// Replace atomically replaces the files in dir. content maps file names to their new content.
// A reader of the directory sees either all old files or all new ones. Replace creates dir if
// needed and keeps files that it did not create itself. If the process dies during Replace,
// the next call removes what is left over.
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

// replaceLink makes the symbolic link name point to target, atomically.
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

// sweepVersions removes older versions, and links to files that are not in content.
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
