package archtest

import (
	"slices"
	"strings"
	"testing"
)

// wings maps each of the two processes that mTLS separates to its folders. All other folders are shared, run both
// (cmd/playground, e2e), or belong to tests.
var wings = map[string][]string{
	"agent":  {"cmd/agent", "controllers/agent", "internal/agent", "webhooks/agent", "liqo"},
	"broker": {"cmd/broker", "controllers/broker", "internal/broker", "webhooks/broker"},
}

// vocabulary is what every package may import: values without behaviour of their own.
var vocabulary = []string{"api", "internal/agent/placement", "internal/broker/reputation", "internal/fault", "internal/lending", "internal/message", "internal/money", "internal/packing", "internal/quantity", "internal/receipt", "internal/requirements"}

// pure packages take values and return values, so that tests can try every case.
var pure = []string{
	"internal/agent/autoscaling", "internal/agent/burst", "internal/agent/fitting", "internal/agent/offering", "internal/agent/placeholder", "internal/agent/placement",
	"internal/broker/accounts", "internal/broker/decision", "internal/broker/history", "internal/broker/ledger", "internal/broker/queue", "internal/broker/reputation",
	"internal/lending", "internal/message", "internal/money", "internal/quantity", "internal/requirements", "internal/view",
	"liqo/plan",
}

// parts are the parts of the broker's session, and parted is what else of the broker they may import:
// they see the session through interfaces of their own, and never each other.
var (
	parts = []string{
		"internal/broker/agenda", "internal/broker/archive", "internal/broker/budget", "internal/broker/clusters", "internal/broker/deadlines",
		"internal/broker/decider", "internal/broker/drains", "internal/broker/excess", "internal/broker/feed", "internal/broker/healing",
		"internal/broker/idle", "internal/broker/links", "internal/broker/mailbox", "internal/broker/metrics", "internal/broker/news",
		"internal/broker/offers", "internal/broker/queueing", "internal/broker/quotes", "internal/broker/receipts", "internal/broker/recovery",
		"internal/broker/requests", "internal/broker/reservations", "internal/broker/standby", "internal/broker/term", "internal/broker/traces",
		"internal/broker/views", "internal/broker/visibility", "internal/broker/whatif",
	}
	parted = []string{
		"internal/broker/accounts", "internal/broker/decision", "internal/broker/history", "internal/broker/journal", "internal/broker/ledger", "internal/broker/offers",
		"internal/broker/queue", "internal/broker/replay", "internal/broker/reputation", "internal/broker/requests", "internal/broker/term", "internal/broker/visibility",
	}
)

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

func TestWingsDoNotImportEachOther(t *testing.T) {
	for _, p := range packages(t) {
		wing := wingOf(p.path())
		if wing == "" {
			continue
		}
		for _, imported := range p.ownImports() {
			if other := wingOf(imported); other != "" && other != wing {
				t.Errorf("%q imports %q, which belongs to the %s: let them communicate through api/rest/v1, or move the shared code out of the wings", p.path(), imported, other)
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
		p := findPackage(t, path)
		for _, imported := range p.ownImports() {
			if !within(imported, vocabulary...) {
				t.Errorf("%q imports %q: a pure package knows shared vocabulary only; join them in the package that uses both", path, imported)
			}
		}
		for _, imported := range p.Imports {
			if within(imported, impure...) {
				t.Errorf("%q imports %q: a pure package has no context, client, logger, metric, clock or random source", path, imported)
			}
		}
	}
}

func TestPartsOfTheBrokerDoNotImportEachOther(t *testing.T) {
	for _, path := range parts {
		for _, imported := range findPackage(t, path).ownImports() {
			if within(imported, "internal/broker") && !within(imported, parted...) {
				t.Errorf("%q imports %q: let it ask for what it needs in its interface of the session", path, imported)
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

// A rule about a package that no longer exists would never fail.
func TestRulesNamePackagesThatExist(t *testing.T) {
	named := slices.Concat(wings["agent"], wings["broker"], vocabulary, pure, parts, parted)
	for _, tree := range named {
		if !slices.ContainsFunc(packages(t), func(p pkg) bool { return within(p.path(), tree) }) {
			t.Errorf("a rule names %q, which contains no package: correct the rule", tree)
		}
	}
}

func TestBinariesLinkOnlyTheirWing(t *testing.T) {
	cases := map[string]struct {
		binary string
		free   []string
	}{
		"the broker links no Liqo":                   {"cmd/broker", []string{"github.com/liqotech", module + "/liqo"}},
		"the broker links no agent":                  {"cmd/broker", []string{module + "/internal/agent", module + "/controllers/agent"}},
		"the broker links no playground":             {"cmd/broker", []string{module + "/internal/playground", module + "/e2e"}},
		"the broker's admission links no controller": {"webhooks/broker", []string{module + "/controllers"}},
		"the agent links no broker":                  {"cmd/agent", []string{module + "/internal/broker", module + "/controllers/broker"}},
		// The plugin replays the journal and shows the state as the controllers would. It serves nobody.
		"the plugin links no server and no agent": {"cmd/kubectl-broker", []string{
			module + "/internal/broker/server", module + "/internal/broker/enrolment", module + "/internal/broker/replica", module + "/webhooks",
			module + "/controllers/agent", module + "/controllers/broker/brokerconfig", module + "/liqo", "github.com/liqotech",
		}},
		"the agent links no playground": {"cmd/agent", []string{module + "/internal/playground", module + "/e2e"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, dependency := range findPackage(t, tc.binary).Deps {
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
