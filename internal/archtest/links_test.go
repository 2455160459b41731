package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// link is a Markdown link: its target, which is empty within a page, and its anchor. What
// begins with a square bracket is a pattern that a page shows.
var link = regexp.MustCompile(`\]\(([^)#\s\[]*)(?:#([^)\s]*))?[^)]*\)`)

// code is what a page quotes; a pattern in it is no link.
var code = regexp.MustCompile("`[^`\n]*`")

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(content), ""), -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, "://") || target+anchor == "" {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %q: %v", page, target, err)
				continue
			}
			if anchor != "" && filepath.Ext(path) == ".md" && !hasHeading(t, path, anchor) {
				t.Errorf("%s links to %q, but %s has no such heading", page, "#"+anchor, path)
			}
		}
	}
}

// heading is a line that begins a section.
var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// unslugged are the characters that anchors leave out of a heading.
var unslugged = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// hasHeading reports whether an anchor leads to a heading of the page.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(heading.FindAllStringSubmatch(string(content), -1), func(match []string) bool {
		return strings.ReplaceAll(unslugged.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-") == anchor
	})
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
