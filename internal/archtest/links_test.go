package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a Markdown link; the target ends at a blank, a closing bracket or an anchor.
// What begins with a square bracket is a pattern that a page shows.
var link = regexp.MustCompile(`\]\(([^)#\s\[][^)#\s]*)[^)]*\)`)

// code is what a page quotes; a pattern in it is no link.
var code = regexp.MustCompile("`[^`\n]*`")

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(content), ""), -1) {
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

// pages are the Markdown files of the repository.
func pages(t *testing.T) []string {
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
