package archtest

import (
	"slices"
	"strings"
	"testing"
)

// wings are the two processes that mTLS separates, each with the trees that it alone
// consists of. What stands in neither is shared, joins both (cmd/playground, e2e), or
// belongs to tests.
var wings = map[string][]string{
	"agent":  {"cmd/agent", "controllers/agent", "internal/agent", "webhooks/agent", "liqo"},
	"broker": {"cmd/broker", "controllers/broker", "internal/broker", "webhooks/broker"},
}

// vocabulary is what every package may import: values without behaviour of their own.
var vocabulary = []string{"api", "internal/agent/placement", "internal/fault", "internal/lending", "internal/message", "internal/quantity", "internal/terms"}

// pure packages take values and return values, so that tests can try every case.
var pure = []string{
	"internal/agent/offering", "internal/agent/placeholder", "internal/agent/placement",
	"internal/broker/decision", "internal/broker/ledger", "internal/broker/queue",
	"internal/lending", "internal/message", "internal/quantity", "internal/terms",
	"liqo/plan",
}

// deliberate are the packages with which tests break or kill the product. A binary
// that is shipped contains none of what they do.
var deliberate = []string{"internal/broker/mutant"}

// wingOf returns the wing of a folder, "" for one that both may use. A package of test
// doubles may join both wings, as tests do.
func wingOf(path string) string {
	if strings.HasSuffix(path, "test") {
		return ""
	}
	for wing, trees := range wings {
		if within(path, trees...) {
			return wing
		}
	}
	return ""
}

func TestTheWingsDoNotImportEachOther(t *testing.T) {
	for _, p := range packages(t) {
		wing := wingOf(p.path())
		if wing == "" {
			continue
		}
		for _, imported := range p.own() {
			if other := wingOf(imported); other != "" && other != wing {
				t.Errorf("%q imports %q, which belongs to the %s: let them speak through api/rest/v1, or move what both need beside the wings", p.path(), imported, other)
			}
		}
	}
}

func TestPurePackagesImportOnlyVocabulary(t *testing.T) {
	impure := []string{
		"context", "log", "log/slog", "net", "net/http", "os", "math/rand", "math/rand/v2", "crypto/rand",
		"k8s.io/client-go", "k8s.io/utils/clock", "sigs.k8s.io/controller-runtime", "github.com/go-logr", "github.com/prometheus",
	}
	for _, path := range pure {
		p := find(t, path)
		for _, imported := range p.own() {
			if !within(imported, vocabulary...) && !within(imported, deliberate...) {
				t.Errorf("%q imports %q: a pure package knows shared vocabulary only; join them in the package that uses both", path, imported)
			}
		}
		for _, imported := range p.Imports {
			if within(imported, impure...) {
				t.Errorf("%q imports %q: a pure package has no context, client, logger, metric, clock or chance", path, imported)
			}
		}
	}
}

func TestOnlyLiqoImportsLiqo(t *testing.T) {
	for _, p := range packages(t) {
		if within(p.path(), "liqo") {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if within(imported, "github.com/liqotech") {
				t.Errorf("%q imports %q: ask the package liqo for what it needs", p.path(), imported)
			}
		}
	}
}

// A rule about a package that was moved or deleted would hold for ever.
func TestRulesNamePackagesThatExist(t *testing.T) {
	named := slices.Concat(wings["agent"], wings["broker"], vocabulary, pure, deliberate)
	for _, tree := range named {
		if !slices.ContainsFunc(packages(t), func(p pkg) bool { return within(p.path(), tree) }) {
			t.Errorf("a rule names %q, where there is no package: correct the rule", tree)
		}
	}
}

func TestBinariesLinkOnlyTheirWing(t *testing.T) {
	cases := map[string]struct {
		binary string
		free   []string
	}{
		"the broker links no Liqo":       {"cmd/broker", []string{"github.com/liqotech", module + "/liqo"}},
		"the broker links no agent":      {"cmd/broker", []string{module + "/internal/agent", module + "/controllers/agent"}},
		"the broker links no playground": {"cmd/broker", []string{module + "/internal/playground", module + "/e2e"}},
		"the agent links no broker":      {"cmd/agent", []string{module + "/internal/broker", module + "/controllers/broker"}},
		"the agent links no playground":  {"cmd/agent", []string{module + "/internal/playground", module + "/e2e"}},
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
