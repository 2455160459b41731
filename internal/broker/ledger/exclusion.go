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
			ends := failedAt.Add(pauseLength(failures[p.Provider].count))
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

// ExcludedAtLast returns the providers that must not serve a reservation that no other provider
// can serve, and that would otherwise end. A provider that failed it once may get a second try:
// its exclusion counts from its own failure.
func (r *Reservation) ExcludedAtLast(now time.Time) []string {
	excluded, _ := r.Excluded(now)
	failures, _ := r.countFailures()
	return slices.DeleteFunc(excluded, func(provider string) bool {
		f := failures[provider]
		return f.count == 1 && !r.isClosedTo(provider) && !now.Before(f.last.Add(pauseLength(f.count)))
	})
}

// failures counts how often one provider failed the reservation; last is when it did so last.
type failures struct {
	count int32
	last  time.Time
}

// countFailures counts the failures of each provider, and returns when the last one of any
// provider was.
func (r *Reservation) countFailures() (by map[string]failures, last time.Time) {
	by = map[string]failures{}
	for i := range r.Placements {
		p := &r.Placements[i]
		if !p.isFailure() {
			continue
		}
		f, at := by[p.Provider], p.WithdrawnAt.Time()
		f.count++
		if at.After(f.last) {
			f.last = at
		}
		if at.After(last) {
			last = at
		}
		by[p.Provider] = f
	}
	return by, last
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
