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
	for _, tt := range []struct {
		name       string
		placements []Placement
		at         int
		want       []string
		next       time.Time
	}{
		{"a standing placement excludes its provider", []Placement{{Provider: paris}}, 1000, []string{paris}, time.Time{}},
		{"a late acknowledgement excludes for a minute", []Placement{left(paris, "Unacknowledged", 0)}, 0, []string{paris}, minute(1)},
		{"and no longer", []Placement{left(paris, "Unacknowledged", 0)}, 1, nil, time.Time{}},
		{"the second failure excludes for two minutes", []Placement{left(paris, "Refused", 0), left(paris, "NeverReady", 5)}, 6, []string{paris}, minute(7)},
		{"the minute begins with the newest failure of any provider", []Placement{left(paris, "NeverReady", 0), left(berlin, "NeverReady", 2)}, 2, []string{paris, berlin}, minute(3)},
		{"a provider that serves another placement stays excluded", []Placement{left(paris, "NeverReady", 0), {Provider: paris}}, 9, []string{paris}, time.Time{}},
		{"a recall excludes for good", []Placement{left(paris, Recalled, 0)}, 1000, []string{paris}, time.Time{}},
		{"a recall after a failure excludes for good", []Placement{left(paris, "Refused", 0), left(paris, Recalled, 5)}, 1000, []string{paris}, time.Time{}},
		{"a victim of preemption may return at once", []Placement{left(paris, Preempted, 0)}, 0, nil, time.Time{}},
		{"after a drain it may return at once", []Placement{left(paris, Drained, 0)}, 0, nil, time.Time{}},
		{"a lost provider may be returned to at once", []Placement{left(paris, ProviderLost, 0)}, 0, nil, time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Reservation{Placements: tt.placements}
			got, next := r.Excluded(minute(tt.at))
			if diff := cmp.Diff(tt.want, got); diff != "" || !next.Equal(tt.next) {
				t.Errorf("the next exclusion ends %s, want %s; excluded (-want +got):\n%s", next, tt.next, diff)
			}
		})
	}
}

func TestReservationThatWouldEndReturnsOnceToProvider(t *testing.T) {
	minute := func(n int) time.Time { return timeOf(0).Add(time.Duration(n) * time.Minute) }
	left := func(provider, why string, n int) Placement {
		return Placement{Provider: provider, Withdrawn: why, WithdrawnAt: instantOf(minute(n))}
	}
	for _, tt := range []struct {
		name       string
		placements []Placement
		at         int
		want       []string
	}{
		{"a minute after its own failure", []Placement{left(paris, "NeverReady", 0), left(berlin, "NeverReady", 2)}, 2, []string{berlin}},
		{"not within that minute", []Placement{left(paris, "Refused", 2), left(berlin, "Refused", 2)}, 2, []string{paris, berlin}},
		{"not after a second failure", []Placement{left(paris, "NeverReady", 0), left(paris, "NeverReady", 2), left(berlin, "NeverReady", 9)}, 9, []string{paris, berlin}},
		{"not after a recall", []Placement{left(paris, "NeverReady", 0), left(paris, Recalled, 1), left(berlin, "NeverReady", 9)}, 9, []string{paris, berlin}},
		{"not while it serves it", []Placement{left(paris, "NeverReady", 0), {Provider: paris}, left(berlin, "NeverReady", 9)}, 9, []string{paris, berlin}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Reservation{Placements: tt.placements}
			if diff := cmp.Diff(tt.want, r.ExcludedAtLast(minute(tt.at))); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
		})
	}
}
