package reputation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// play adds outcomes in the order of a script of words: rome! is a failure with rome, rome? a refusal,
// rome+ a success, rome= a grant whose outcome is open, and 5m lets five minutes pass. Everything is
// granted at the moment of its outcome, except rome~, a failure of what was granted at noon.
func play(t *testing.T, script string) (*Reputation, time.Time) {
	t.Helper()
	var r *Reputation
	now := noon
	for word := range strings.FieldsSeq(script) {
		who, what := word[:len(word)-1], word[len(word)-1]
		switch what {
		case '!':
			r = r.Granted(now, who).Failed(now, now, who, Failure)
		case '?':
			r = r.Granted(now, who).Failed(now, now, who, Refusal)
		case '~':
			r = r.Failed(now, noon, who, Failure)
		case '+':
			r = r.Granted(now, who).Served(now, now, who)
		case '=':
			r = r.Granted(now, who)
		default:
			d, err := time.ParseDuration(word)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
		}
	}
	return r, now
}

// suspensions describes the suspensions now: for all, and for single counterparts.
func suspensions(r *Reputation, now time.Time) string {
	all, of, _ := r.Suspended(now)
	if all != nil {
		if of == nil {
			of = map[string]Suspension{}
		}
		of["all"] = *all
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(of)) {
		text := fmt.Sprintf("%s for %s", id, of[id].Until.Sub(now))
		if of[id].LastResort {
			text += " last"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestSuspensions(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"nothing is known":                                       {"", ""},
		"two failures are forgiven":                              {"rome! rome!", ""},
		"the third pauses for the requester":                     {"rome! rome! rome!", "rome for 1m0s"},
		"so do six refusals":                                     {"rome? rome? rome? rome? rome? rome?", "rome for 1m0s"},
		"a success between makes up for half a failure":          {"rome! rome+ rome! rome+ rome!", ""},
		"it is tried again after a minute":                       {"rome! rome! rome! 1m", ""},
		"one requester alone pauses it for nobody else":          {"rome! rome! rome! 1m rome! 2m rome! 4m rome!", "rome for 8m0s"},
		"two pause it for all":                                   {"rome! rome! berlin!", "all for 1m0s"},
		"a served one makes up for one failure of others":        {"rome! athens+ rome! berlin!", ""},
		"however often":                                          {"rome! athens+ athens+ athens+ athens+ rome! berlin! berlin!", "all for 1m0s"},
		"failures of earlier grants are no news":                 {"1m rome! rome! rome! rome~ rome~", "rome for 1m0s"},
		"nor are those with others":                              {"1m rome! rome! berlin! athens~ athens~ athens~ athens~", "all for 1m0s"},
		"a trial blocks as long as its outcome is open":          {"rome! rome! rome! 1m rome! 2m rome=", "rome for 2m0s"},
		"one that fails doubles the pause":                       {"rome! rome! rome! 1m rome! 2m rome!", "rome for 4m0s"},
		"one that serves ends it":                                {"rome! rome! rome! 1m rome! 2m rome+", ""},
		"the next failure pauses longer":                         {"rome! rome! rome! 1m rome! 2m rome+ rome!", "rome for 4m0s"},
		"successes without failures shorten later pauses":        {"rome! rome! rome! 1m rome! 2m rome+ rome+ rome+ rome+ rome+ rome+ rome+ rome+ rome! rome! rome!", "rome for 1m0s"},
		"a trial of one ends the pause for all":                  {"rome! rome! berlin! 1m athens+", ""},
		"but every grant is one while there are too many points": {"rome! rome! berlin! berlin! 1m athens+ athens=", "all for 2m0s"},
		"after an hour it is the last resort": {
			"rome! rome! rome! 1m rome! 2m rome! 4m rome! 8m rome! 16m rome! 32m rome! 64m rome! 1h", "rome for 1h8m0s last",
		},
		"everything is forgotten in time": {"rome! rome! berlin! 720h rome! rome!", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := suspensions(play(t, tt.script)); got != tt.want {
				t.Errorf("%s is suspended for %q, want %q", tt.script, got, tt.want)
			}
		})
	}
}

// A value that was returned earlier does not change, because snapshots are written later.
func TestOutcomesChangeNoEarlierValue(t *testing.T) {
	before, now := play(t, "rome! rome! berlin!")
	want := fmt.Sprint(*before)
	before.Failed(now, now, "rome", Failure)
	before.Served(now, now, "berlin")
	before.Granted(now, "rome")
	if got := fmt.Sprint(*before); got != want {
		t.Errorf("it was %s and is %s", want, got)
	}
}

func TestReputationWithoutFailuresTakesNoMemory(t *testing.T) {
	for _, script := range []string{"rome+", "rome! rome+ rome+", "rome! berlin+ rome+ rome+", "rome! rome! berlin! 1m rome+ rome+ rome+ rome+ berlin+ berlin+ berlin+"} {
		if r, _ := play(t, script); r != nil {
			t.Errorf("%s leaves %+v", script, *r)
		}
	}
	many := ""
	for n := range maxTallies + 10 {
		many += fmt.Sprintf("requester-%d! ", n)
	}
	if r, _ := play(t, many); len(r.Tallies) > maxTallies {
		t.Errorf("%d tallies", len(r.Tallies))
	}
}

func TestSuspensionsChangeOnlyWhenAnnounced(t *testing.T) {
	describe := func(r *Reputation, now time.Time) (string, time.Time) {
		all, of, next := r.Suspended(now)
		text := fmt.Sprint(of)
		if all != nil {
			text += fmt.Sprint(*all)
		}
		return text, next
	}
	r, now := play(t, "rome! rome! rome! 1m rome! 2m rome! 4m rome! 8m rome! 16m rome! 32m rome! 64m rome! berlin!")
	changes := 0
	for text, next := describe(r, now); !next.IsZero(); text, next = describe(r, next) {
		if later, _ := describe(r, next.Add(-1)); later != text {
			t.Errorf("before %s it changed from %s to %s", next.Sub(now), text, later)
		}
		changes++
	}
	if text, _ := describe(r, now.Add(memory)); text != "map[]" || changes < 4 {
		t.Errorf("after %d changes and a month %s", changes, text)
	}
}
