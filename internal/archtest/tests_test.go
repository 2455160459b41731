package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// quotedTest matches a test or fuzz target that a page quotes, with its subtest if the page names one.
var quotedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)(?:/([^`\n]+))?`")

// declaredTest matches the declaration of a test.
var declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\(`)

// Pages name the tests that prove their claims.
func TestQuotedTestsExist(t *testing.T) {
	declared, sources := testSources(t)
	quoted := 0
	for _, page := range findPages(t) {
		content, err := os.ReadFile(page)
		runtest.Check(t, err)
		for _, missing := range missingTests(string(content), declared, sources) {
			t.Errorf("%s quotes %s, which no test file has", page, missing)
		}
		quoted += len(quotedTest.FindAllString(string(content), -1))
	}
	if quoted == 0 {
		t.Error("no page quotes a test")
	}
}

// missingTests returns the quoted tests of a page that do not exist. A subtest must be named in
// the file of its test.
func missingTests(page string, declared map[string]string, sources map[string]string) []string {
	var missing []string
	for _, match := range quotedTest.FindAllStringSubmatch(page, -1) {
		file, ok := declared[match[1]]
		if !ok || match[2] != "" && !strings.Contains(sources[file], match[2]) {
			missing = append(missing, match[0])
		}
	}
	return missing
}

// testSources returns the file name of each test that the repository declares, and the text of each test
// file by name.
func testSources(t *testing.T) (declared, sources map[string]string) {
	t.Helper()
	declared, sources = map[string]string{}, map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources[name] = string(content)
		for _, match := range declaredTest.FindAllStringSubmatch(string(content), -1) {
			declared[match[1]] = name
		}
		return nil
	})
	runtest.Check(t, err)
	return declared, sources
}

// namedTest matches the name of a test in a comment.
var namedTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]*\b`)

// Comments name the tests that guard against a trap or arm a failpoint.
func TestTestsNamedInCommentsExist(t *testing.T) {
	declared, _ := testSources(t)
	named := 0
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			runtest.Check(t, err)
			for _, comment := range file.Comments {
				for _, test := range namedTest.FindAllString(comment.Text(), -1) {
					named++
					if _, ok := declared[test]; !ok {
						t.Errorf("%s: a comment names %s, which no test file has", fset.Position(comment.Pos()), test)
					}
				}
			}
		}
	}
	if named == 0 {
		t.Error("no comment names a test")
	}
}

func TestMissingTestsAreFound(t *testing.T) {
	declared := map[string]string{"TestOne": "one_test.go"}
	sources := map[string]string{"one_test.go": `t.Run("a case", f)`}
	page := "`TestOne`, `TestOne/a case`, `TestOne/another case` and `TestTwo`"
	if got := strings.Join(missingTests(page, declared, sources), " "); got != "`TestOne/another case` `TestTwo`" {
		t.Errorf("got %s", got)
	}
}
