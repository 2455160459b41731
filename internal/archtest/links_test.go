package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// linkPattern matches a Markdown link: its target, which is empty within a page, and its anchor.
// A target that begins with a square bracket is a quoted pattern.
var linkPattern = regexp.MustCompile(`\]\(([^)#\s\[]*)(?:#([^)\s]*))?[^)]*\)`)

// codePattern matches quoted code, in which a pattern is not a link.
var codePattern = regexp.MustCompile("`[^`\n]*`")

func TestLinksOfPagesHaveTargets(t *testing.T) {
	for _, page := range findPages(t) {
		content, err := os.ReadFile(page)
		runtest.Check(t, err)
		for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(string(content), ""), -1) {
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

// headingPattern matches a line that begins a section.
var headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)

// unslugged are the characters that anchors leave out of a heading.
var unslugged = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// hasHeading reports whether an anchor leads to a heading of the page.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	content, err := os.ReadFile(page)
	runtest.Check(t, err)
	return slices.ContainsFunc(headingPattern.FindAllStringSubmatch(string(content), -1), func(match []string) bool {
		return strings.ReplaceAll(unslugged.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-") == anchor
	})
}

// findPages returns the Markdown files of the repository, except those in folders whose names begin
// with a dot.
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
	runtest.Check(t, err)
	if len(found) == 0 {
		t.Fatal("there are no pages")
	}
	return found
}
