package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const troubleshooting = "docs/troubleshooting.md"

// vocabularies maps the packages whose constants appear in objects and answers to the type of these constants.
// Without a type, the constants are those named Reason… and Condition….
var vocabularies = map[string]string{
	"api/agent/v1alpha1": "", "api/broker/v1alpha1": "",
	"internal/fault": "Reason", "internal/broker/decision": "Reason",
}

// Users look up conditions and reasons in the troubleshooting page.
func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
	for folder, typeName := range vocabularies {
		words := constantsOf(t, findPackage(t, folder), typeName)
		if len(words) == 0 {
			t.Errorf("%s no longer has reasons: remove it from this test", folder)
		}
		for _, word := range words {
			if !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("%s does not explain `%s` of %s", troubleshooting, word, folder)
			}
		}
	}
}

// constantsOf returns the values of a package's exported constants of a type, or of those that wanted selects by
// name.
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

// reasonPattern matches a condition or reason in the first column of a table.
var reasonPattern = regexp.MustCompile("`([A-Z][A-Za-z]+)`")

func TestExplainedReasonsExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range packages(t) {
		if within(p.path(), "internal/playground", "e2e", "internal/archtest") {
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
	_, explained, _ := strings.Cut(string(page), "\n## Conditions and reasons\n")
	for line := range strings.Lines(explained) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, match := range reasonPattern.FindAllStringSubmatch(first, -1) {
			if !known[match[1]] {
				t.Errorf("%s explains `%s`, which is nowhere in the code", troubleshooting, match[1])
			}
		}
	}
}

// quotedMetric is a metric's name in the page.
var quotedMetric = regexp.MustCompile("`((?:broker|agent)_[a-z_]+)[`{]")

// metricPattern is a metric's name in the code.
var metricPattern = regexp.MustCompile(`^(broker|agent)(_[a-z]+)+$`)

// metricName returns the expression that names a metric: the Name of its options, the first
// argument of NewDesc, or the first column of a table of metrics.
func metricName(node ast.Node) ast.Node {
	switch n := node.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Name" {
			return n.Value
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "NewDesc" {
			return n.Args[0]
		}
	case *ast.CompositeLit:
		if len(n.Elts) > 0 && n.Type == nil {
			return n.Elts[0]
		}
	}
	return nil
}

// Metrics of ours are all listed, and those that are listed exist.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("%s does not list metric %s", troubleshooting, m)
		}
	}
	for _, m := range listed {
		if !slices.Contains(made, m) {
			t.Errorf("%s lists metric %s, which does not exist", troubleshooting, m)
		}
	}
}

// parseSources parses the files of a package, except tests.
func parseSources(t *testing.T, p pkg) []*ast.File {
	t.Helper()
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// stringLiteral returns the text of a string literal.
func stringLiteral(node ast.Node) (string, bool) {
	value, ok := node.(*ast.BasicLit)
	if !ok || value.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(value.Value)
	return text, err == nil
}
