package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

const (
	troubleshooting = "docs/troubleshooting.md"
	metricsPage     = "docs/metrics.md"
)

// vocabularies maps the packages whose constants appear in objects and answers to the type of these constants.
// Without a type, the constants are those named Reason… and Condition….
var vocabularies = map[string]string{
	"api/agent/v1alpha1": "", "api/broker/v1alpha1": "",
	"internal/fault": "Reason", "internal/broker/decision": "Reason",
}

// Users look up conditions and reasons in the documentation and with kubectl broker reason, both from one table.
func TestEveryReasonIsExplained(t *testing.T) {
	for folder, typeName := range vocabularies {
		words := constantsOf(t, findPackage(t, folder), typeName)
		if len(words) == 0 {
			t.Errorf("%s no longer has reasons: remove it from this test", folder)
		}
		for _, word := range words {
			if len(view.Explain(word)) == 0 {
				t.Errorf("internal/view does not explain %q of %s: add it to the terms", word, folder)
			}
		}
	}
}

// constantsOf returns the values of a package's exported constants of a type. If typeName is "", it returns those of
// the constants whose names begin with Reason or Condition.
func constantsOf(t *testing.T, p pkg, typeName string) (words []string) {
	t.Helper()
	for _, file := range parseSources(t, p) {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				if !value.Names[0].IsExported() || !isReasonConstant(value, typeName) || len(value.Values) == 0 {
					continue
				}
				if text, ok := stringLiteral(value.Values[0]); ok {
					words = append(words, text)
				}
			}
		}
	}
	return words
}

func isReasonConstant(value *ast.ValueSpec, typeName string) bool {
	if typeName == "" {
		name := value.Names[0].Name
		return strings.HasPrefix(name, "Reason") || strings.HasPrefix(name, "Condition")
	}
	of, ok := value.Type.(*ast.Ident)
	return ok && of.Name == typeName
}

func TestExplainedReasonsExist(t *testing.T) {
	known := productLiterals(t)
	for _, word := range view.Words() {
		if !known[word] {
			t.Errorf("internal/view explains %q, which is nowhere in the code", word)
		}
	}
}

// productLiterals returns all string literals of the product, except those that only explain or test it.
func productLiterals(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, p := range packages(t) {
		if within(p.path(), "internal/playground", "e2e", "internal/archtest", "internal/view") {
			continue
		}
		for _, file := range parseSources(t, p) {
			ast.Inspect(file, func(node ast.Node) bool {
				if text, ok := stringLiteral(node); ok {
					known[text] = true
				}
				return true
			})
		}
	}
	return known
}

// quotedReasons matches words that a page calls a reason, condition or event, and quotedWord each of them.
var (
	quotedReasons = regexp.MustCompile("\\b(?i:reason|condition|event)s? \\[?(?:`[A-Z][A-Za-z]+`(?:, | and | or )?)+")
	quotedWord    = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// Pages quote no condition, reason or event that the product no longer has.
func TestQuotedReasonsExist(t *testing.T) {
	known := productLiterals(t)
	known["FailedReflection"] = true // an event of Liqo
	for _, name := range findPages(t) {
		page, err := os.ReadFile(name)
		runtest.Check(t, err)
		for _, list := range quotedReasons.FindAllString(string(page), -1) {
			for _, match := range quotedWord.FindAllStringSubmatch(list, -1) {
				if !known[match[1]] {
					t.Errorf("%s names %q, which is nowhere in the code", name, match[1])
				}
			}
		}
	}
}

// Each table of reasons is between markers in one of these pages. The test generates each table and compares it with
// the page. Conditions and answers of the REST API name themselves, and kubectl broker reason explains them.
func TestTermsAreDocumented(t *testing.T) {
	pages := map[string]string{}
	for _, name := range []string{troubleshooting, "docs/decision.md"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		runtest.Check(t, err)
		pages[name] = string(content)
	}
	written := maps.Clone(pages)
	for _, term := range view.Terms() {
		if term.Kind == view.Condition || term.Subject == view.OfAnswer {
			continue
		}
		begin := "<!-- reasons of " + string(term.Subject) + " -->\n"
		placed := false
		for name := range written {
			if after, ok := replaceBetween(written[name], begin, view.ReasonTable(term.Subject)); ok {
				written[name], placed = after, true
			}
		}
		if !placed {
			t.Fatalf("no page has the mark %q with an end", begin)
		}
	}
	for name, page := range written {
		if *update {
			runtest.Check(t, os.WriteFile(filepath.Join(root, name), []byte(page), 0o644))
		} else if diff := cmp.Diff(page, pages[name]); diff != "" {
			t.Errorf("%s is out of date: run make generate (-terms +page):\n%s", name, diff)
		}
	}
}

// quotedMetric is a metric's name in the page.
var quotedMetric = regexp.MustCompile("`((?:broker|agent)_[a-z_]+)[`{]")

// metricPattern is a metric's name in the code.
var metricPattern = regexp.MustCompile(`^(broker|agent)(_[a-z]+)+$`)

// metricMakers are functions whose first argument names a metric.
var metricMakers = []string{"NewDesc", "newCounterVec", "newCounters", "newHistogram", "newHistogramVec", "histogramOpts"}

// metricName returns the expression that names a metric: the Name of its options, or the first argument of a function
// that makes one. It returns nil for any other node.
func metricName(node ast.Node) ast.Node {
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Name" {
			return n.Value
		}
	case *ast.CallExpr:
		name, _ := n.Fun.(*ast.Ident)
		if f, ok := n.Fun.(*ast.SelectorExpr); ok {
			name = f.Sel
		}
		if name != nil && len(n.Args) > 0 && slices.Contains(metricMakers, name.Name) {
			return n.Args[0]
		}
	}
	return nil
}

// The page lists all metrics that the product makes, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, metricsPage))
	runtest.Check(t, err)
	var listed, made []string
	for _, match := range quotedMetric.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, match[1])
	}
	for _, p := range packages(t) {
		for _, file := range parseSources(t, p) {
			ast.Inspect(file, func(node ast.Node) bool {
				if text, ok := stringLiteral(metricName(node)); ok && metricPattern.MatchString(text) {
					made = append(made, text)
				}
				return true
			})
		}
	}
	for _, m := range made {
		if !slices.Contains(listed, m) {
			t.Errorf("%s does not list metric %s", metricsPage, m)
		}
	}
	for _, m := range listed {
		if !slices.Contains(made, m) {
			t.Errorf("%s lists metric %s, which does not exist", metricsPage, m)
		}
	}
}

// parseSources parses the files of a package, except tests.
func parseSources(t *testing.T, p pkg) []*ast.File {
	t.Helper()
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		runtest.Check(t, err)
		files = append(files, file)
	}
	return files
}

// stringLiteral returns the text of a string literal, and false for any other node.
func stringLiteral(node ast.Node) (string, bool) {
	value, ok := node.(*ast.BasicLit)
	if !ok || value.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(value.Value)
	return text, err == nil
}
