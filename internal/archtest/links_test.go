package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linkPattern matches a Markdown link. Its target ends at a blank, a closing bracket or an anchor. A target that begins with
// a square bracket is a quoted pattern.
var linkPattern = regexp.MustCompile(`\]\(([^)#\s\[][^)#\s]*)[^)]*\)`)

// codePattern matches quoted code, in which a pattern is not a link.
var codePattern = regexp.MustCompile("`[^`\n]*`")

func TestLinksOfPagesHaveTargets(t *testing.T) {
	for _, page := range findPages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(string(content), ""), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
				t.Errorf("%s links to %q: %v", page, target, err)
			}
		}
	}
}

// findPages returns the Markdown files of the repository.
func findPages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("there are no pages")
	}
	return found
}
