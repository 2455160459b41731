package robustness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/mutant"
)

// finder is a test that a mutant must fail, with the expected error.
type finder struct {
	folder, test string
	// says lists the possible errors.
	says []string
	// slow finders run the processes of this package, and only in a soak.
	slow bool
}

func byModel(says ...string) finder {
	return finder{folder: "../../internal/broker", test: "TestSimulation", says: says}
}

func byLedger(says ...string) finder {
	return finder{folder: "../../internal/broker/ledger", test: "TestSimulation", says: says}
}

var finders = map[mutant.Mutant]finder{
	mutant.StaleGrant:       byModel("is to give", "is to hold", "can give it", "overbooked", "has room"),
	mutant.ForgetKey:        byModel("has the reservations", "asking again with"),
	mutant.ForgetTombstone:  byModel("was given back, asking with it"),
	mutant.AgentClock:       byModel(" can give ", "is to give", "has room", "no cluster can hold", "has not answered"),
	mutant.OldAdvertisement: byModel("the broker counts", "overbooked", "is to give", " can give "),
	mutant.EarlyResale:      byModel("has not confirmed that it is free"),
	mutant.ReleaseTwice:     byModel("the broker counts", "overbooked"),
	mutant.CountBoth:        byModel("the broker counts"),
	mutant.HastyShrink:      byModel("the broker counts", "overbooked"),
	mutant.HastyLeave:       byModel("was left, and nobody else serves it"),
	mutant.EarlyExpiry:      byModel("before its time"),
	mutant.OutOfOrder:       byModel(" waits"),
	mutant.EqualVictim:      byModel("has to make room for one of priority"),
	mutant.LateTake:         byModel("over: true"),
	mutant.ShortPause:       byLedger("it is suspended"),
	mutant.OneWord:          byLedger("it is suspended"),
	mutant.Accomplice:       byLedger("it is suspended"),
	mutant.SkipSwap:         {folder: ".", test: "TestPausedLeaderGrantsNothing", says: []string{"records are lost"}, slow: true},
	mutant.HastyAnswer:      {folder: ".", test: "TestKilledAtEveryPoint", says: []string{"the journal has"}, slow: true},
}

// mutantsTag is the build tag of programs with mutants.
const mutantsTag = "mutants"

// Every mutant is found by its test, with the expected error.
func TestEveryMutantIsFound(t *testing.T) {
	dir, tests := t.TempDir(), map[string]string{}
	for _, m := range mutant.All {
		t.Run(string(m), func(t *testing.T) {
			f, ok := finders[m]
			if !ok {
				t.Fatal("no test is assigned to find it")
			}
			if f.slow && !soaking {
				t.Skipf("%s takes minutes: LRB_SOAK=1", f.test)
			}
			if tests[f.folder] == "" {
				tests[f.folder] = withMutants(t, f.folder, dir)
			}
			cmd := exec.CommandContext(t.Context(), tests[f.folder], "-test.run=^"+f.test+"$")
			cmd.Dir = f.folder
			cmd.Env = append(os.Environ(), "LRB_SOAK=", mutant.Variable+"="+string(m))
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("%s passes with it", f.test)
			}
			for line := range strings.Lines(string(out)) {
				if slices.ContainsFunc(f.says, func(s string) bool { return strings.Contains(line, s) }) {
					t.Logf("%s: %.300s", f.test, strings.TrimSpace(line))
					return
				}
			}
			t.Errorf("%s fails, and does not say %q:\n%.3000s", f.test, f.says, out)
		})
	}
}

// withMutants builds the tests of a folder with the mutants.
func withMutants(t *testing.T, folder, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "tests-of-"+filepath.Base(folder))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags="+mutantsTag, "-o", binary, folder).CombinedOutput()
	if err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", folder, err, out)
	}
	return binary
}
