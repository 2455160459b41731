// Package dockerfile compares the Dockerfile with the ko build in hack/images, without a
// container engine or a registry.
package dockerfile

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var programs = []string{"agent", "broker"}

// image holds the properties that must be the same whether the Dockerfile or hack/images builds the image.
type image struct {
	Base, User string
	Entrypoint []string
	// Path is what the build appends to the base's PATH.
	Path   string
	Labels map[string]string
	// Files maps the path of each file that the build adds to the package from which the file is built.
	Files map[string]string
	// Linked is the variable that the linker sets to the version.
	Linked string
	// Static is true if the program is built without cgo, Trimpath if it is built with -trimpath.
	Static, Trimpath bool
}

func TestDockerfileMatchesKoBuild(t *testing.T) {
	stages := readStages(t, filepath.Join("..", "..", "Dockerfile"))
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			if diff := cmp.Diff(koImage(t, program), dockerImage(t, stages, program)); diff != "" {
				t.Errorf("image (-hack/images +Dockerfile):\n%s", diff)
			}
		})
	}
}

// The default target is the last stage.
func TestDockerfileBuildsBrokerByDefault(t *testing.T) {
	stages := readStages(t, filepath.Join("..", "..", "Dockerfile"))
	if last := stages[len(stages)-1].name; last != "broker" {
		t.Errorf("the last stage is %q, want broker", last)
	}
}

func TestDockerignoreKeepsSourcesOfBothBinaries(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", ".dockerignore"))
	runtest.Check(t, err)
	var kept []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			kept = append(kept, name)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", "./cmd/broker", "./cmd/agent")
	command.Dir = filepath.Join("..", "..")
	out, err := command.Output()
	runtest.Check(t, err)
	top, err := filepath.Abs(command.Dir)
	runtest.Check(t, err)
	for dir := range strings.FieldsSeq(string(out)) {
		folder, err := filepath.Rel(top, dir)
		runtest.Check(t, err)
		if first, _, _ := strings.Cut(folder, string(filepath.Separator)); !slices.Contains(kept, first) {
			t.Errorf(".dockerignore drops %s, which a binary imports", folder)
		}
	}
}

// stage is one FROM of a Dockerfile with its instructions.
type stage struct {
	name, from   string
	instructions []instruction
}

type instruction struct{ name, arguments string }

func readStages(t *testing.T, path string) []stage {
	t.Helper()
	text, err := os.ReadFile(path)
	runtest.Check(t, err)
	var stages []stage
	for _, line := range logicalLines(string(text)) {
		name, arguments, _ := strings.Cut(line, " ")
		if name == "FROM" {
			words := slices.DeleteFunc(strings.Fields(arguments), func(w string) bool { return strings.HasPrefix(w, "--") })
			if len(words) != 3 || words[1] != "AS" {
				t.Fatalf("%q: want FROM image AS name", line)
			}
			stages = append(stages, stage{name: words[2], from: words[0]})
			continue
		}
		if len(stages) == 0 {
			t.Fatalf("%q stands before the first FROM", line)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, instruction{name, strings.TrimSpace(arguments)})
	}
	return stages
}

// logicalLines joins continued lines and drops comments.
func logicalLines(text string) (lines []string) {
	pending := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if part, continued := strings.CutSuffix(line, "\\"); continued {
			pending += part
			continue
		}
		lines, pending = append(lines, pending+line), ""
	}
	return lines
}

// dockerImage evaluates a stage and those it is built from.
func dockerImage(t *testing.T, stages []stage, name string) image {
	t.Helper()
	got := image{Labels: map[string]string{}, Files: map[string]string{}}
	var chain []stage
	for at := name; ; {
		i := slices.IndexFunc(stages, func(s stage) bool { return s.name == at })
		if i < 0 {
			got.Base = at
			break
		}
		chain = append(chain, stages[i])
		at = stages[i].from
	}
	slices.Reverse(chain)
	for _, s := range chain {
		for _, in := range s.instructions {
			got.execute(t, stages, in)
		}
	}
	return got
}

func (g *image) execute(t *testing.T, stages []stage, in instruction) {
	t.Helper()
	switch in.name {
	case "ARG":
	case "USER":
		g.User = in.arguments
	case "ENV":
		added, ok := strings.CutPrefix(in.arguments, "PATH=${PATH}:")
		if !ok {
			t.Fatalf("ENV %s: the ko build only appends to PATH", in.arguments)
		}
		g.Path = added
	case "LABEL":
		maps.Copy(g.Labels, labelsOf(t, in.arguments))
	case "ENTRYPOINT":
		if err := json.Unmarshal([]byte(in.arguments), &g.Entrypoint); err != nil {
			t.Fatalf("ENTRYPOINT %s: want its exec form: %v", in.arguments, err)
		}
	case "COPY":
		words := strings.Fields(in.arguments)
		from, ok := strings.CutPrefix(words[0], "--from=")
		if !ok || len(words) != 3 {
			t.Fatalf("COPY %s: only single files of a build stage belong into the image", in.arguments)
		}
		g.copyBuilt(t, stages, from, words[1], words[2])
	default:
		t.Fatalf("%s %s: the ko build has no such thing", in.name, in.arguments)
	}
}

var goBuild = regexp.MustCompile(`^go build (.*)-o (\S+) +-ldflags "-s -w -X (\S+)=\$\{VERSION\}" (\./cmd/\w+)$`)

// copyBuilt records a file that "go build" wrote in another stage.
func (g *image) copyBuilt(t *testing.T, stages []stage, from, source, target string) {
	t.Helper()
	for i := slices.IndexFunc(stages, func(s stage) bool { return s.name == from }); i >= 0; {
		for _, in := range stages[i].instructions {
			if build := goBuild.FindStringSubmatch(in.arguments); in.name == "RUN" && build != nil && build[2] == source {
				g.Files[target], g.Linked = build[4], build[3]
				g.Trimpath = slices.Contains(strings.Fields(build[1]), "-trimpath")
			}
			if in.name == "ENV" && slices.Contains(strings.Fields(in.arguments), "CGO_ENABLED=0") {
				g.Static = true
			}
		}
		from := stages[i].from
		i = slices.IndexFunc(stages, func(s stage) bool { return s.name == from })
	}
	if g.Files[target] == "" {
		t.Fatalf("no go build writes %s", source)
	}
}

var label = regexp.MustCompile(`(\S+)="([^"]*)"`)

func labelsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	labels := map[string]string{}
	for _, pair := range label.FindAllStringSubmatch(text, -1) {
		labels[pair[1]] = pair[2]
	}
	return labels
}

// koImage reads the settings of the ko build from its source. ko puts the program of a
// package at /ko-app/<its folder's name>, and appends that folder to PATH; "make images-verify" checks that on an image.
func koImage(t *testing.T, program string) image {
	t.Helper()
	build := parseGo(t, filepath.Join("..", "images", "build.go"))
	path := "/ko-app/" + program
	return image{
		Base:       flagDefault(t, parseGo(t, filepath.Join("..", "images", "main.go")), "base"),
		User:       constant(t, build, "user"),
		Entrypoint: []string{path},
		Path:       filepath.Dir(path),
		Labels:     koLabels(t, build, program),
		Files:      map[string]string{path: "./cmd/" + program},
		Linked:     constant(t, build, "linkedVersion"),
		Static:     mentions(build, "CGO_ENABLED=0"),
		Trimpath:   mentions(build, "WithTrimpath"),
	}
}

func parseGo(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	runtest.Check(t, err)
	return file
}

// constant returns the value of a string constant, wherever it is declared.
func constant(t *testing.T, file *ast.File, name string) string {
	t.Helper()
	found := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == name && len(spec.Values) == 1 {
			found = textOf(t, spec.Values[0])
		}
		return true
	})
	if found == "" {
		t.Fatalf("hack/images has no constant %s", name)
	}
	return found
}

func textOf(t *testing.T, e ast.Expr) string {
	t.Helper()
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%T is no literal", e)
	}
	text, err := strconv.Unquote(literal.Value)
	runtest.Check(t, err)
	return text
}

// flagDefault returns the default of a flag that StringVar defines.
func flagDefault(t *testing.T, file *ast.File, name string) string {
	t.Helper()
	found := ""
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 4 {
			return true
		}
		if literal, ok := call.Args[1].(*ast.BasicLit); ok && literal.Value == strconv.Quote(name) {
			found = textOf(t, call.Args[2])
		}
		return true
	})
	if found == "" {
		t.Fatalf("hack/images has no flag %s", name)
	}
	return found
}

// koLabels evaluates the map of labels. A value that is known only at build time is represented by the name of the
// Dockerfile's argument.
func koLabels(t *testing.T, file *ast.File, program string) map[string]string {
	t.Helper()
	labels := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := pair.Key.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(key.Sel.Name, "Annotation") {
			return true
		}
		name := strings.ToLower(strings.TrimPrefix(key.Sel.Name, "Annotation"))
		labels["org.opencontainers.image."+name] = labelValue(t, file, name, pair.Value, program)
		return true
	})
	if len(labels) == 0 {
		t.Fatal("hack/images sets no labels")
	}
	return labels
}

func labelValue(t *testing.T, file *ast.File, name string, e ast.Expr, program string) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return textOf(t, e)
	case *ast.Ident:
		if e.Name == "image" {
			return program
		}
		return constant(t, file, e.Name)
	case *ast.BinaryExpr:
		return labelValue(t, file, name, e.X, program) + labelValue(t, file, name, e.Y, program)
	}
	return fmt.Sprintf("${%s}", strings.ToUpper(name))
}

// mentions reports whether a file contains an identifier or string.
func mentions(file *ast.File, text string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || n.Name == text
		case *ast.BasicLit:
			found = found || n.Value == strconv.Quote(text)
		}
		return !found
	})
	return found
}
