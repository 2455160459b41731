package archtest

import (
	"slices"
	"strings"
	"testing"
)

// rows are the layers of the product, highest first; each is named by the folders
// that belong to it. A package may import its own row and those below.
var rows = [][]string{
	{"cmd", "internal/playground", "internal/identity/identitytest", "e2e", "hack"},
	{"controllers", "webhooks", "internal/server", "internal/dashboard", "internal/metrics", "internal/checkup", "internal/uninstall", "internal/home"},
	// What joins the parts below into use cases: the broker's, and of the agent what
	// it makes of instructions, and how it keeps its certificate.
	{"internal/broker", "internal/inbox", "internal/bounds", "internal/consent", "internal/enrolment", "internal/identity"},
	{
		"liqo", "internal/capacity", "internal/pricing", "internal/placeholder", "internal/enforcement", "internal/reach", "internal/transport/http", "internal/transport/kubernetes",
		"internal/transport/fake", "internal/transport/transporttest", "internal/journal", "internal/pki", "internal/replica",
	},
	{"internal/configuration"},
	{"internal/wire", "internal/transport"},
	{"internal/decision", "internal/ledger", "internal/queue", "internal/access"},
	{"api", "charts", "config", "internal/quantity", "internal/offering", "internal/terms", "internal/lending", "internal/fault", "internal/version", "internal/failpoint", "internal/runtest", "internal/mutant"},
}

// strangers are packages of one row that do not import each other: those below
// controllers, and the parts of the core.
func strangers(one, other string) bool {
	core := []string{"internal/decision", "internal/ledger", "internal/queue"}
	return within(one, "controllers") && within(other, "controllers") ||
		within(one, core...) && within(other, core...)
}

// rowOf is the row of a folder, counted from the top; that of the deepest tree
// that holds it.
func rowOf(path string) (row int, ok bool) {
	deepest := -1
	for i, trees := range rows {
		for _, tree := range trees {
			if within(path, tree) && len(tree) > deepest {
				row, deepest = i, len(tree)
			}
		}
	}
	return row, deepest >= 0
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.path(), "internal/archtest") {
			continue
		}
		row, ok := rowOf(p.path())
		if !ok {
			t.Errorf("package %q has no row: give it one in this test and in docs/architecture.md", p.path())
			continue
		}
		for _, imported := range p.own() {
			if below, ok := rowOf(imported); ok && below < row {
				t.Errorf("%q imports %q, which lies above it: move what it needs down, or take it as an argument", p.path(), imported)
			}
			if strangers(p.path(), imported) {
				t.Errorf("%q imports %q: they do not know each other; join them one row up", p.path(), imported)
			}
		}
	}
}

// The core takes values and returns values.
func TestTheCoreIsPure(t *testing.T) {
	impure := []string{
		"context", "log", "log/slog", "net", "net/http", "os", "math/rand", "math/rand/v2", "crypto/rand",
		"k8s.io/client-go", "k8s.io/utils/clock", "sigs.k8s.io/controller-runtime", "github.com/go-logr", "github.com/prometheus",
	}
	for _, path := range []string{"internal/decision", "internal/ledger", "internal/queue", "internal/quantity"} {
		for _, imported := range find(t, path).Imports {
			if within(imported, impure...) {
				t.Errorf("%q imports %q: the core knows no context, client, logger, metric, clock or chance", path, imported)
			}
		}
	}
}

func TestOnlyOnePackageSpeaksToLiqo(t *testing.T) {
	for _, p := range packages(t) {
		if p.path() == "liqo" {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if within(imported, "github.com/liqotech") {
				t.Errorf("%q imports %q: ask the package liqo for what it needs", p.path(), imported)
			}
		}
	}
}

func TestWhatBinariesLink(t *testing.T) {
	cases := map[string]struct {
		binary string
		free   []string
	}{
		"the broker links no Liqo":              {"cmd/broker", []string{"github.com/liqotech", module + "/liqo"}},
		"the broker links no playground":        {"cmd/broker", []string{module + "/internal/playground", module + "/e2e"}},
		"the agent links no ledger or decision": {"cmd/agent", []string{module + "/internal/ledger", module + "/internal/decision", module + "/internal/journal", module + "/internal/broker"}},
		"the agent links no playground":         {"cmd/agent", []string{module + "/internal/playground", module + "/e2e"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, dependency := range find(t, tc.binary).Deps {
				if within(dependency, tc.free...) {
					t.Errorf("%q links %q", tc.binary, dependency)
				}
			}
		})
	}
}

func TestPackagesAreNamedAfterTheirDomain(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "types"}
	for _, p := range packages(t) {
		folder := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if slices.Contains(vague, p.Name) || slices.Contains(vague, folder) {
			t.Errorf("package %q: name it after what it is about, a noun of the domain", p.path())
		}
	}
}
