// Package gitops tests the manifests for Argo CD and Flux in this folder.
package gitops

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var update = flag.Bool("update", false, "write the health that the scripts find into testdata; read what changed before you commit it")

// state is an object recorded in a real run, with the expected health in Argo CD. Fields that no script reads are left
// out: times of conditions, most metadata and nearly all of spec.
type state struct {
	Name    string         `json:"name"`
	Health  string         `json:"health"`
	Message string         `json:"message"`
	Object  map[string]any `json:"object"`
}

const healthKey = "resource.customizations.health."

func TestHealthOfEveryRecordedState(t *testing.T) {
	scripts := scriptsOf(t)
	files, err := filepath.Glob("testdata/health/*.yaml")
	runtest.Check(t, err)
	var recorded []string
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".yaml")
		recorded = append(recorded, kind)
		t.Run(kind, func(t *testing.T) { testStates(t, file, scripts[kind]) })
	}
	var scripted []string
	for kind := range scripts {
		scripted = append(scripted, kind)
	}
	slices.Sort(scripted)
	if diff := cmp.Diff(scripted, recorded); diff != "" {
		t.Errorf("kinds with a script, and those with recorded states:\n%s", diff)
	}
}

func testStates(t *testing.T, file, script string) {
	text, err := os.ReadFile(file)
	runtest.Check(t, err)
	var states []state
	runtest.Check(t, yaml.UnmarshalStrict(text, &states))
	for i := range states {
		s := &states[i]
		got, err := health(t.Context(), script, s.Object)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if *update {
			s.Health, s.Message = got.Status, got.Message
		}
		if diff := cmp.Diff(result{s.Health, s.Message}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, diff)
		}
	}
	if !*update {
		return
	}
	text, err = yaml.Marshal(states)
	runtest.Check(t, err)
	runtest.Check(t, os.WriteFile(file, text, 0o644))
}

// A new object has no status, and may have no generation yet.
func TestHealthOfAnObjectWithoutStatus(t *testing.T) {
	for kind, script := range scriptsOf(t) {
		got, err := health(t.Context(), script, map[string]any{"metadata": map[string]any{"name": "new"}})
		if err != nil || got.Status != "Progressing" || got.Message == "" {
			t.Errorf("%s: got %+v, %v, want Progressing and why", kind, got, err)
		}
	}
}

// scriptsOf returns the health scripts in argocd-cm, by group_Kind.
func scriptsOf(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("argocd/argocd-cm.yaml")
	runtest.Check(t, err)
	var config corev1.ConfigMap
	runtest.Check(t, yaml.UnmarshalStrict(text, &config))
	scripts := map[string]string{}
	for key, script := range config.Data {
		if kind, ok := strings.CutPrefix(key, healthKey); ok {
			scripts[kind] = script
		}
	}
	if len(scripts) == 0 {
		t.Fatal("there are no health scripts")
	}
	return scripts
}

// result is what a health script returns.
type result struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// health runs a script like Argo CD: with only the libraries base, package and table, for at most a second, with the
// object in the global obj, and a table as its result.
func health(ctx context.Context, script string, object map[string]any) (result, error) {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := vm.CallByParam(lua.P{Fn: vm.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return result{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	vm.SetContext(ctx)
	vm.SetGlobal("obj", toLua(vm, object))
	if err := vm.DoString(script); err != nil {
		return result{}, err
	}
	table, ok := vm.Get(-1).(*lua.LTable)
	if !ok {
		return result{}, fmt.Errorf("the script returns %s, want a table", vm.Get(-1).Type())
	}
	return fromLua(table)
}

func fromLua(table *lua.LTable) (result, error) {
	fields := map[string]string{}
	var wrong error
	table.ForEach(func(key, value lua.LValue) {
		if value.Type() != lua.LTString {
			wrong = errors.Join(wrong, fmt.Errorf("hs.%s is a %s, want a string", key, value.Type()))
		}
		fields[key.String()] = value.String()
	})
	if wrong != nil {
		return result{}, wrong
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return result{}, err
	}
	var r result
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return result{}, err
	}
	if !slices.Contains([]string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}, r.Status) {
		return result{}, fmt.Errorf("hs.status %q is unknown to Argo CD", r.Status)
	}
	return r, nil
}

func toLua(vm *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := vm.CreateTable(len(v), 0)
		for _, item := range v {
			table.Append(toLua(vm, item))
		}
		return table
	case map[string]any:
		table := vm.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetString(key, toLua(vm, item))
		}
		return table
	}
	return lua.LNil
}
