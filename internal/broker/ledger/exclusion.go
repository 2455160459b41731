package ledger

import (
	"slices"
	"time"
)

// blameless lists the reasons for giving up a placement that do not exclude its provider: the
// reservation may return to it at once.
var blameless = []string{Preempted, ProviderLost, ProviderBack, Forgotten, Drained}

// Excluded returns the providers that must not get the next placement of a reservation: those with
// a placement of the reservation that still stands, those that recalled one of its placements, and
// those that failed to serve the reservation. next is when the next exclusion ends merely because
// time passes, zero if none does.
//
// An exclusion for failures lasts as long as the pause that a provider gets for the same number of
// failures. It counts from the newest failure on any provider, so that a search tries every other
// provider before it returns to one.
func (r *Reservation) Excluded(now time.Time) (providers []string, next time.Time) {
	failures, failedAt := r.countFailures()
	for i := range r.Placements {
		p := &r.Placements[i]
		if slices.Contains(blameless, p.Withdrawn) || slices.Contains(providers, p.Provider) {
			continue
		}
		if p.isFailure() && !r.isClosedTo(p.Provider) {
			ends := failedAt.Add(pauseLength(failures[p.Provider]))
			if !now.Before(ends) {
				continue
			}
			if next.IsZero() || ends.Before(next) {
				next = ends
			}
		}
		providers = append(providers, p.Provider)
	}
	return providers, next
}

// countFailures returns how often each provider failed the reservation, and when the last of these
// failures was.
func (r *Reservation) countFailures() (count map[string]int32, last time.Time) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if !p.isFailure() {
			continue
		}
		if count == nil {
			count = map[string]int32{}
		}
		count[p.Provider]++
		if at := p.WithdrawnAt.Time(); at.After(last) {
			last = at
		}
	}
	return count, last
}

// isClosedTo reports whether a provider is excluded without a time limit, because it has a
// placement of the reservation that was not given up, or has recalled one.
func (r *Reservation) isClosedTo(provider string) bool {
	return slices.ContainsFunc(r.Placements, func(p Placement) bool {
		return p.Provider == provider && (p.Withdrawn == "" || p.Withdrawn == Recalled)
	})
}

// isFailure reports whether the provider failed the reservation with this placement.
func (p *Placement) isFailure() bool {
	return p.Withdrawn != "" && p.Withdrawn != Recalled && !slices.Contains(blameless, p.Withdrawn)
}
