package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// site counts what is in use; every call of End takes some away.
type site struct {
	inUse, perPass int
	asked          int
}

func (s *site) departure(policy Policy) Departure {
	return Departure{
		Policy: policy, Timeout: time.Minute, Clock: clock.RealClock{}, Advice: "delete them",
		InUse: func(context.Context) ([]string, error) {
			lines := make([]string, s.inUse)
			for i := range lines {
				lines[i] = fmt.Sprintf("Reservation default/r%d: Active", i)
			}
			return lines, nil
		},
		End: func(context.Context) error {
			s.asked++
			s.inUse = max(0, s.inUse-s.perPass)
			return nil
		},
	}
}

func TestDeparture(t *testing.T) {
	tests := map[string]struct {
		site   site
		policy Policy
		output string
		wrong  string
		took   time.Duration
		asked  int
	}{
		"nothing is in use": {policy: Refuse, output: "nothing is in use\n"},
		"Refuse fails and prints the first ten entries": {
			site: site{inUse: 12}, policy: Refuse, wrong: "not uninstalled: 12 in use, the first: Reservation default/r0: Active (policy Refuse)",
			output: "in use:\n  Reservation default/r0: Active\n  Reservation default/r1: Active\n  Reservation default/r2: Active\n" +
				"  Reservation default/r3: Active\n  Reservation default/r4: Active\n  Reservation default/r5: Active\n" +
				"  Reservation default/r6: Active\n  Reservation default/r7: Active\n  Reservation default/r8: Active\n" +
				"  Reservation default/r9: Active\n  and 2 more\ndelete them\n",
		},
		"Drain prints its progress": {
			site: site{inUse: 2, perPass: 1}, policy: Drain, took: 2 * time.Second, asked: 2,
			output: "2 in use, waiting 1m0s at most:\n  Reservation default/r0: Active\n  Reservation default/r1: Active\n" +
				"1 in use, waiting 59s at most:\n  Reservation default/r0: Active\ndrained: nothing is in use\n",
		},
		"a drain without progress prints every 15 s, and fails with what is left": {
			site: site{inUse: 1}, policy: Drain, took: time.Minute, asked: 60,
			output: "1 in use, waiting 1m0s at most:\n  Reservation default/r0: Active\n1 in use, waiting 45s at most:\n  Reservation default/r0: Active\n" +
				"1 in use, waiting 30s at most:\n  Reservation default/r0: Active\n1 in use, waiting 15s at most:\n  Reservation default/r0: Active\n",
			wrong: "not uninstalled: after 1m0s still in use:\n  Reservation default/r0: Active\ndelete them",
		},
		"ignored": {site: site{inUse: 3}, policy: Ignore, output: "policy Ignore: leaving everything in use as it is\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				began, got := time.Now(), ""
				if err := test.site.departure(test.policy).Run(t.Context(), &out); err != nil {
					got = err.Error()
				}
				if got != test.wrong || time.Since(began) != test.took || test.site.asked != test.asked {
					t.Errorf("got %q after %s and %d times asked, want %q, %s and %d", got, time.Since(began), test.site.asked, test.wrong, test.took, test.asked)
				}
				if diff := cmp.Diff(test.output, out.String()); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDepartureLeavesBeforeItEndsUses checks that others know of the deletion before Departure ends what is in use.
// Otherwise they would begin to use something else.
func TestDepartureLeavesBeforeItEndsUses(t *testing.T) {
	for name, test := range map[string]struct {
		site   site
		policy Policy
		// arrives is the number of uses that begin during Leave.
		arrives int
		leaving error
		calls   string
		output  string
		wrong   string
	}{
		"nothing is in use":               {policy: Refuse, calls: "Leave", output: "nothing is in use\n"},
		"something is in use":             {site: site{inUse: 1}, policy: Refuse, wrong: "policy Refuse", calls: "", output: "in use:"},
		"something comes into use":        {policy: Refuse, arrives: 1, wrong: "policy Refuse", calls: "Leave Stay", output: "in use:"},
		"the drain ends":                  {site: site{inUse: 1, perPass: 1}, policy: Drain, calls: "Leave End", output: "drained: nothing is in use\n"},
		"the drain ends what came late":   {site: site{perPass: 1}, policy: Drain, arrives: 1, calls: "Leave End", output: "drained: nothing is in use\n"},
		"the drain fails":                 {site: site{inUse: 1}, policy: Drain, wrong: "after 1m0s still in use", calls: "Leave" + strings.Repeat(" End", 60) + " Stay"},
		"others cannot be told":           {policy: Drain, leaving: errors.New("the broker is away"), calls: "Leave", output: "warning: the broker is away\nnothing is in use\n"},
		"policy Ignore changes nothing":   {site: site{inUse: 1}, policy: Ignore, calls: ""},
		"a drain starts though all is ok": {policy: Drain, calls: "Leave", output: "nothing is in use\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []string
				d := test.site.departure(test.policy)
				end := d.End
				d.End = func(ctx context.Context) error {
					calls = append(calls, "End")
					return end(ctx)
				}
				d.Leave = func(context.Context) error {
					calls = append(calls, "Leave")
					test.site.inUse += test.arrives
					return test.leaving
				}
				d.Stay = func(context.Context) error {
					calls = append(calls, "Stay")
					return nil
				}
				var out strings.Builder
				err := d.Run(t.Context(), &out)
				if (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("got error %v, want %q", err, test.wrong)
				}
				if diff := cmp.Diff(test.calls, strings.Join(calls, " ")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if !strings.Contains(out.String(), test.output) {
					t.Errorf("got output %q, want %q in it", out.String(), test.output)
				}
			})
		})
	}
}

func TestPolicySetParsesFlag(t *testing.T) {
	var p Policy
	if err := p.Set("Drain"); err != nil || p != Drain {
		t.Errorf("got %q, %v", p, err)
	}
	if err := p.Set("drain"); err == nil || !strings.Contains(err.Error(), "Refuse, Drain or Ignore") {
		t.Errorf("got %v, want an error that names the policies", err)
	}
}
