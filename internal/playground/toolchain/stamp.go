package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// recipe is a part of every stamp. It must be incremented when the way in which programs are built
// changes, so that outdated binaries in the cache are built again.
const recipe = 1

// stamp returns a digest of everything that determines a tool's binary.
func (t *Toolchain) stamp(tool Tool) (string, error) {
	pins, err := t.Pins(tool)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s/%s %+v %s", recipe, runtime.Version(), runtime.GOOS, runtime.GOARCH, tool, pins)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Pins returns a digest of the files that determine the version of a tool and of its dependencies.
func (t *Toolchain) Pins(tool Tool) (string, error) {
	h := sha256.New()
	dir := filepath.Join(t.root, "hack", tool.Module)
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range append([]string{filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")}, sources...) {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("pins of %q: %w", tool.Name, err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(file), len(content))
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (t *Toolchain) stampFile(tool Tool) string { return t.Path(tool) + ".stamp" }

// isFresh reports whether the binary in the cache has the given stamp.
func (t *Toolchain) isFresh(tool Tool, stamp string) bool {
	if _, err := os.Stat(t.Path(tool)); err != nil {
		return false
	}
	kept, err := os.ReadFile(t.stampFile(tool))
	return err == nil && string(kept) == stamp
}
