package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProviderIsExcludedForAsLongAsItsFailuresPauseIt(t *testing.T) {
	left := func(provider, why string, minute int) Placement {
		return Placement{Provider: provider, Withdrawn: why, WithdrawnAt: instantOf(timeOf(0).Add(time.Duration(minute) * time.Minute))}
	}
	minute := func(n int) time.Time { return timeOf(0).Add(time.Duration(n) * time.Minute) }
	only := func(ids ...string) Tried { return Tried{Excluded: ids} }
	until := func(n int, ids ...string) Tried { return Tried{Excluded: ids, Next: minute(n)} }
	avoided := func(ids ...string) Tried { return Tried{Avoided: ids} }
	for _, tt := range []struct {
		name       string
		placements []Placement
		at         int
		want       Tried
	}{
		{"a standing placement excludes its provider", []Placement{{Provider: paris}}, 1000, only(paris)},
		{"a late acknowledgement excludes for a minute", []Placement{left(paris, "Unacknowledged", 0)}, 0, until(1, paris)},
		{"then others are asked first", []Placement{left(paris, "Unacknowledged", 0)}, 1, avoided(paris)},
		{"the second failure excludes for two minutes", []Placement{left(paris, "Refused", 0), left(paris, "NeverReady", 5)}, 6, until(7, paris)},
		{"the eighth excludes for an hour", []Placement{
			left(paris, "Refused", 0), left(paris, "Refused", 0), left(paris, "Refused", 0), left(paris, "Refused", 0),
			left(paris, "Refused", 0), left(paris, "Refused", 0), left(paris, "Refused", 0), left(paris, "Refused", 0),
		}, 59, until(60, paris)},
		{"the failure of another provider does not prolong it", []Placement{left(paris, "NeverReady", 0), left(berlin, "NeverReady", 2)}, 2,
			Tried{Excluded: []string{berlin}, Avoided: []string{paris}, Next: minute(3)}},
		{"a provider that serves another placement stays excluded", []Placement{left(paris, "NeverReady", 0), {Provider: paris}}, 9, only(paris)},
		{"a recall excludes for good", []Placement{left(paris, Recalled, 0)}, 1000, only(paris)},
		{"a recall after a failure excludes for good", []Placement{left(paris, "Refused", 0), left(paris, Recalled, 5)}, 1000, only(paris)},
		{"a victim of preemption may return at once", []Placement{left(paris, Preempted, 0)}, 0, Tried{}},
		{"after a drain it may return at once", []Placement{left(paris, Drained, 0)}, 0, Tried{}},
		{"a lost provider may be returned to at once", []Placement{left(paris, ProviderLost, 0)}, 0, Tried{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Reservation{Placements: tt.placements}
			if diff := cmp.Diff(tt.want, r.Tried(minute(tt.at))); diff != "" {
				t.Errorf("tried (-want +got):\n%s", diff)
			}
		})
	}
}
