package ledger

import (
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
)

// blameless lists the reasons for giving up a placement that do not exclude its provider: the
// reservation may return to it at once.
var blameless = []string{Preempted, ProviderLost, ProviderBack, Forgotten, Drained}

// IsReserved reports whether only the broker may give up a placement for the reason. A provider that
// refused with such a reason would neither be excluded nor blamed.
func IsReserved(reason string) bool {
	return reason == withdrawnLost || slices.Contains(blameless, reason)
}

// Tried is what the earlier placements of a reservation mean for its next one.
type Tried struct {
	// Excluded are the providers that must not get it: those with a placement that still stands,
	// those that recalled one, and those that have just failed the reservation.
	Excluded []string
	// Avoided are the providers that failed the reservation earlier. They get it if no other can.
	Avoided []string
	// Next is when the next exclusion ends merely because time passes, zero if none does.
	Next time.Time
}

// Tried returns which providers the next placement of the reservation must not go to, and which it
// should avoid. A failure excludes its provider for as long as the pause that a provider gets for
// the same number of failures.
func (r *Reservation) Tried(now time.Time) Tried {
	var t Tried
	for i := range r.Placements {
		id := r.Placements[i].Provider
		if slices.Contains(t.Excluded, id) || slices.Contains(t.Avoided, id) {
			continue
		}
		switch ends, forGood := r.exclusionOf(id); {
		case forGood:
			t.Excluded = append(t.Excluded, id)
		case now.Before(ends):
			t.Excluded = append(t.Excluded, id)
			if t.Next.IsZero() || ends.Before(t.Next) {
				t.Next = ends
			}
		case !ends.IsZero():
			t.Avoided = append(t.Avoided, id)
		}
	}
	return t
}

// exclusionOf returns until when a provider is excluded because it failed the reservation, zero if
// it never did, and whether it is excluded without a time limit.
func (r *Reservation) exclusionOf(provider string) (ends time.Time, forGood bool) {
	failures, last := int32(0), time.Time{}
	for i := range r.Placements {
		p := &r.Placements[i]
		switch {
		case p.Provider != provider || slices.Contains(blameless, p.Withdrawn):
		case p.Withdrawn == "" || p.Withdrawn == Recalled:
			return time.Time{}, true
		default:
			failures++
			if at := p.WithdrawnAt.Time(); at.After(last) {
				last = at
			}
		}
	}
	if failures == 0 {
		return time.Time{}, false
	}
	return last.Add(reputation.Block(failures)), false
}
