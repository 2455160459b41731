package robustness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// finder is a test that must fail with a mutant, and the expected error.
type finder struct {
	folder, test string
	// says lists parts of the possible errors. One must occur.
	says []string
	// slow is true if the test starts brokers and an API server. Such a test runs only in a soak.
	slow bool
}

func byModel(says ...string) finder {
	return finder{folder: "../../internal/broker", test: "TestSimulation", says: says}
}

func byLedger(says ...string) finder {
	return finder{folder: "../../internal/broker/ledger", test: "TestSimulation", says: says}
}

func byReputation(test string, says ...string) finder {
	return finder{folder: "../../internal/broker/reputation", test: test, says: says}
}

func byRequests(test string, says ...string) finder {
	return finder{folder: "../../controllers/agent/resourcerequest", test: test, says: says}
}

var finders = map[string]finder{
	"stale-grant":       byModel("is to give", "is to hold", " can give ", "overbooked", "has room"),
	"forget-key":        byModel("has the reservations", "asking again with", "finds <nil>, it belongs to"),
	"forget-tombstone":  byModel("was given back, asking with it"),
	"agent-clock":       byModel(" can give ", "is to give", "is to hold", "has room", "no cluster can hold", "has not answered", "silent: false", "silent: true"),
	"old-advertisement": byModel("is overtaken", "the broker counts", "overbooked", "is to give", " can give "),
	"early-resale":      byModel("has not confirmed that it is free"),
	"forget-others":     byModel("has not confirmed that it is free", "still keeps capacity for it"),
	"release-twice":     byModel("the broker counts", "overbooked"),
	"count-both":        byModel("the broker counts"),
	"hasty-shrink":      byModel("the broker counts", "overbooked"),
	"hasty-leave":       byModel("and nobody else serves it"),
	"eager-move":        byModel("it got a placement on"),
	"short-network":     byModel("was given up with NeverReady, want NeverConnected"),
	"early-expiry":      byModel("before its time"),
	"out-of-order":      byModel(" waits"),
	"equal-victim":      byModel("has to make room for one of priority"),
	"late-take":         byModel("over: true"),
	"patient-trial":     byModel("its node waits since", "was given up with", "was to be given up with"),
	"endless-drain":     byModel("its lender is drained (false)"),
	"open-cordon":       byModel("is cordoned, and gets something new", "is to give", "is to hold", "has room", "can give"),
	"hasty-newcomer":    byModel("out of turn"),
	"short-pause":       byReputation("TestLiarGetsHardlyAnyRequestAtAnyRate", "want less than 1 %"),
	"one-word":          byReputation("TestSuspensions", "is suspended for"),
	"accomplice":        byReputation("TestSuspensions", "is suspended for"),
	"early-meter":       byLedger("has cost"),
	"idle-one-word":     {folder: "../../internal/broker", test: "TestReservationThatMayBeUsedIsNotReleased", says: []string{"rome is told"}},
	"idle-silence":      {folder: "../../internal/broker", test: "TestReservationThatMayBeUsedIsNotReleased", says: []string{"rome is told"}},
	"endless-account":   byModel("accounts (-recounted"),
	"double-day":        {folder: "../../internal/broker/accounts", test: "TestAccountsAgainstARecountOfAllIntervals", says: []string{"-recounted"}},
	"drifting-price":    {folder: "../../internal/broker", test: "TestLeaseIsRepricedOncePerDay", says: []string{"within the first day"}},
	"open-key":          byRequests("TestLateCallOfAnEarlierAttemptReservesNothing", "the late call got <nil>"),
	"same-attempt":      byRequests("TestEditedRequestThatIsOverIsAskedForAgain", "held (-want +got)"),
	"eager-attempt":     byRequests("TestNextAttemptWaitsUntilNothingOfTheLastOneIsLeft", "before the last one is gone"),
	"same-key":          {folder: "../../controllers/broker/reservation", test: "TestEditOfAReservationThatIsOverAsksAgain", says: []string{"once it is over"}},
	"skip-swap":         {folder: ".", test: "TestPausedLeaderGrantsNothing", says: []string{"records are lost"}, slow: true},
	"hasty-answer":      {folder: ".", test: "TestKilledAtEveryPoint", says: []string{"the journal has"}, slow: true},
}

// TestEveryMutantIsFound runs each mistake in testdata/mutants: its test must fail, with the
// expected error.
func TestEveryMutantIsFound(t *testing.T) {
	names, dir := mutants(t), t.TempDir()
	for name := range finders {
		if !slices.Contains(names, name) {
			t.Errorf("mutant %q has a finder and no patch", name)
		}
	}
	overlay := newOverlay(names, dir)
	path, err := overlay.write()
	runtest.Check(t, err)
	tests := map[string]string{}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			runtest.Check(t, overlay.broken[name])
			f, ok := finders[name]
			if !ok {
				t.Fatal("no test is named that finds it")
			}
			if f.slow && !soaking {
				t.Skipf("%s takes minutes: LRB_SOAK=1", f.test)
			}
			if tests[f.folder] == "" {
				tests[f.folder] = buildTests(t, f.folder, dir, path)
			}
			f.find(t, tests[f.folder], mutantVariable+"="+name, overlayVariable+"="+path)
		})
	}
}

// find runs the test with the mutant. The test must fail with one of the expected errors.
func (f *finder) find(t *testing.T, binary string, environment ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+f.test+"$")
	if !f.slow {
		// One seed after the other: which seed fails first must not depend on the machine's speed.
		cmd.Args = append(cmd.Args, "-test.cpu=1")
	}
	cmd.Dir = f.folder
	cmd.Env = append(append(os.Environ(), "LRB_SOAK="), environment...)
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
}

// buildTests builds the tests of a folder with all mutants.
func buildTests(t *testing.T, folder, dir, overlay string) string {
	t.Helper()
	binary := filepath.Join(dir, "tests-of-"+filepath.Base(folder))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay="+overlay, "-o", binary, folder).CombinedOutput()
	if err != nil {
		t.Fatalf("building the tests of %s: %v\n%s", folder, err, out)
	}
	return binary
}

// TestBrokenPatchesAreReported checks the errors for patches that a change of the product has
// invalidated.
func TestBrokenPatchesAreReported(t *testing.T) {
	file := "internal/broker/ledger/hold.go"
	source, err := os.ReadFile(filepath.Join(root, file))
	runtest.Check(t, err)
	head := strings.SplitN(string(source), "\n", 5)
	cases := map[string]struct{ patch, want string }{
		"the code has changed":        {patchOf(file, "func gone() {", "func gone() { panic(1) }"), "no longer applies"},
		"the file is gone":            {patchOf("internal/broker/ledger/gone.go", "a", "b"), "a file that is gone"},
		"more than a body is changed": {patchOf(file, head[0], head[0]+" // changed", head[1:4]...), "more than the bodies of functions"},
		"no file is named":            {"words\n", "names no file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			patch := filepath.Join(folder, "mutant.patch")
			runtest.Check(t, os.WriteFile(patch, []byte(tc.patch), 0o600))
			o := newOverlay(nil, t.TempDir())
			if err := o.add("mutant", patch); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// patchOf returns a patch that replaces the first line of a file. others are the lines after it.
func patchOf(file, before, after string, others ...string) string {
	patch := fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -1,%d +1,%d @@\n-%s\n+%s\n", file, file, len(others)+1, len(others)+1, before, after)
	for _, line := range others {
		patch += " " + line + "\n"
	}
	return patch
}
