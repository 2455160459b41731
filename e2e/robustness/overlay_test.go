package robustness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// root is the module's folder.
	root = "../.."
	// mutantVariable is the environment variable that selects the mutant of a process built with an
	// overlay. overlayVariable names the overlay with which a test builds brokers.
	mutantVariable  = "LRB_MUTANT"
	overlayVariable = "LRB_MUTANT_OVERLAY"
)

// overlay replaces source files of a build by versions that contain every mutant, so one build
// serves all of them. Each changed function begins with a copy of its body for every mutant, and
// mutantVariable selects the copy that runs.
type overlay struct {
	dir string
	// variants holds the bodies of changed functions, by file and signature.
	variants map[string]map[string][]variant
	// broken holds the error of each invalid patch, by mutant.
	broken map[string]error
}

// variant is the body of a function in one mutant, without its braces.
type variant struct{ mutant, body string }

// mutants returns the names of the patches in testdata/mutants.
func mutants(t *testing.T) []string {
	t.Helper()
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("testdata/mutants has %d patches: %v", len(patches), err)
	}
	names := make([]string, 0, len(patches))
	for _, p := range patches {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".patch"))
	}
	return names
}

func newOverlay(names []string, dir string) *overlay {
	o := &overlay{dir: dir, variants: map[string]map[string][]variant{}, broken: map[string]error{}}
	for _, name := range names {
		patch := "testdata/mutants/" + name + ".patch"
		if err := o.add(name, patch); err != nil {
			o.broken[name] = fmt.Errorf("%s: %w", patch, err)
		}
	}
	return o
}

// add applies one patch to copies of the files that it changes, and records the functions that
// differ.
func (o *overlay) add(name, patch string) error {
	patch, err := filepath.Abs(patch)
	if err != nil {
		return err
	}
	files, err := patchedFiles(patch)
	if err != nil {
		return err
	}
	tree := filepath.Join(o.dir, name)
	for _, file := range files {
		if err := copyFile(filepath.Join(root, file), filepath.Join(tree, file)); err != nil {
			return fmt.Errorf("it changes a file that is gone: %w", err)
		}
	}
	apply := exec.Command("git", "apply", "-p1", patch)
	apply.Dir = tree
	// Below a repository, git would apply the patch to that repository's files.
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(o.dir))
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("it no longer applies, make the change anew and save git diff: %w\n%s", err, out)
	}
	for _, file := range files {
		if err := o.addVariants(name, file, filepath.Join(tree, file)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func patchedFiles(patch string) ([]string, error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(string(text)) {
		if file, ok := strings.CutPrefix(line, "+++ b/"); ok {
			files = append(files, strings.TrimSpace(file))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("it names no file")
	}
	return files, nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// source is a Go file with its functions by signature.
type source struct {
	text      []byte
	pkg       string
	functions map[string]function
}

type function struct {
	// from and to are the offsets of the body without its braces.
	from, to int
	returns  bool
}

func readSource(path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		return nil, err
	}
	s := &source{text: text, pkg: file.Name.Name, functions: map[string]function{}}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		signature := string(text[offset(f.Pos()):offset(f.Body.Lbrace)])
		s.functions[signature] = function{offset(f.Body.Lbrace) + 1, offset(f.Body.Rbrace), f.Type.Results != nil}
	}
	return s, nil
}

func (s *source) body(f function) string { return string(s.text[f.from:f.to]) }

// besideBodies returns the text without function bodies.
func (s *source) besideBodies() []byte {
	out := slices.Clone(s.text)
	for _, f := range s.inReverse() {
		out = slices.Delete(out, f.from, f.to)
	}
	return out
}

func (s *source) inReverse() []function {
	var out []function
	for _, f := range s.functions {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b function) int { return b.from - a.from })
	return out
}

func (o *overlay) addVariants(mutant, file, mutated string) error {
	before, err := readSource(filepath.Join(root, file))
	if err != nil {
		return err
	}
	after, err := readSource(mutated)
	if err != nil {
		return err
	}
	if !bytes.Equal(before.besideBodies(), after.besideBodies()) {
		return errors.New("it changes more than the bodies of functions")
	}
	changed := 0
	for signature, f := range before.functions {
		if body := after.body(after.functions[signature]); body != before.body(f) {
			if o.variants[file] == nil {
				o.variants[file] = map[string][]variant{}
			}
			o.variants[file][signature] = append(o.variants[file][signature], variant{mutant, body})
			changed++
		}
	}
	if changed == 0 {
		return errors.New("it changes nothing")
	}
	return nil
}

// write writes the overlay and returns its path, for go build -overlay.
func (o *overlay) write() (string, error) {
	replace := map[string]string{}
	for file, functions := range o.variants {
		s, err := readSource(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		original, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		selector := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar selectedMutant = os.Getenv(%q)\n", s.pkg, mutantVariable)
		for path, text := range map[string]string{original: s.with(functions), filepath.Join(filepath.Dir(original), "selected_mutant.go"): selector} {
			replaced := filepath.Join(o.dir, fmt.Sprintf("overlay-%d.go", len(replace)))
			if replace[path] != "" {
				continue // the selector of this package was already written
			}
			if err := os.WriteFile(replaced, []byte(text), 0o600); err != nil {
				return "", err
			}
			replace[path] = replaced
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// with returns the file's text with each function's variants inserted at the beginning of its body.
func (s *source) with(variants map[string][]variant) string {
	text := string(s.text)
	before := map[int]string{}
	for signature, bodies := range variants {
		f := s.functions[signature]
		for _, v := range bodies {
			end := "\n"
			if !f.returns {
				end = "\nreturn\n"
			}
			before[f.from] += "\nif selectedMutant == " + strconv.Quote(v.mutant) + " {" + v.body + end + "}\n"
		}
	}
	for _, f := range s.inReverse() {
		text = text[:f.from] + before[f.from] + text[f.from:]
	}
	return text
}
