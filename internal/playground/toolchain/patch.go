package toolchain

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// overlay writes the patched file, and the list that makes the compiler read it
// in place of the original. It returns the list's name.
func (t *Toolchain) overlay(ctx context.Context, tool Tool) (string, error) {
	dir, err := t.ModuleDir(ctx, tool.Module, tool.Patch.Module)
	if err != nil {
		return "", err
	}
	original := filepath.Join(dir, filepath.FromSlash(tool.Patch.File))
	content, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(content), tool.Patch.Old); n != 1 {
		return "", fmt.Errorf("patch of %q: %s stands %d times in %q, want once: adapt the patch to the pinned version",
			tool.Name, tool.Patch.Old, n, original)
	}
	patched := t.Path(tool) + ".patched.go"
	content = []byte(strings.Replace(string(content), tool.Patch.Old, tool.Patch.New, 1))
	if err := os.WriteFile(patched, content, 0o644); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: patched}})
	if err != nil {
		return "", err
	}
	file := t.Path(tool) + ".overlay.json"
	return file, os.WriteFile(file, list, 0o644)
}
