package toolchain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// patchedModule copies the module that a tool patches, patches the copy, and writes a go.mod that uses the copy. It
// returns the path of that go.mod, and a function that removes the copy.
func (t *Toolchain) patchedModule(ctx context.Context, tool Tool) (modfile string, done func() error, err error) {
	source, err := t.ModuleDir(ctx, tool.Module, tool.Patch.Module)
	if err != nil {
		return "", nil, err
	}
	patched := t.Path(tool) + ".patched"
	if err := os.RemoveAll(patched); err != nil { // left by an interrupted build
		return "", nil, err
	}
	if err := os.CopyFS(patched, os.DirFS(source)); err != nil {
		return "", nil, err
	}
	if err := tool.Patch.apply(patched); err != nil {
		return "", nil, fmt.Errorf("patch of %q: %w", tool.Name, err)
	}
	modfile = filepath.Join(patched, "build.mod")
	for _, name := range []string{"mod", "sum"} {
		content, err := os.ReadFile(filepath.Join(t.root, "hack", tool.Module, "go."+name))
		if err != nil {
			return "", nil, err
		}
		if name == "mod" {
			content = fmt.Appendf(content, "\nreplace %s => %s\n", tool.Patch.Module, patched)
		}
		if err := os.WriteFile(filepath.Join(patched, "build."+name), content, 0o644); err != nil {
			return "", nil, err
		}
	}
	return modfile, func() error { return os.RemoveAll(patched) }, nil
}

// apply patches the file in the folder dir. It returns an error unless the text to replace occurs exactly once.
func (p Patch) apply(dir string) error {
	file := filepath.Join(dir, filepath.FromSlash(p.File))
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := strings.Count(string(content), p.Old); n != 1 {
		return fmt.Errorf("%s occurs %d times in %q, want once: adapt the patch to the pinned version", p.Old, n, p.File)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(content), p.Old, p.New, 1)), 0o644)
}
