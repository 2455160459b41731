package ledger

import (
	"fmt"
	"time"
)

// Close records that the broker no longer waits for the requester of an ended reservation: the
// requester's agent is silent, and every provider has reported its placements as gone. If the
// agent returns, it still gets its instruction to release. The reservation stays in the book until
// the agent has reported the placements as gone.
type Close struct {
	Name string `json:"name"`
}

// Closable reports whether an ended reservation waits only for its requester.
func (r *Reservation) Closable() bool {
	return r.Phase() == Releasing && r.allProvidersGone()
}

func (c *Close) subject() string { return c.Name }

func (c *Close) checkAgainst(s *State) error {
	r := s.reservations[c.Name]
	switch {
	case r == nil:
		return fmt.Errorf("reservation %q: %w", c.Name, ErrUnknown)
	case !r.Closable():
		return fmt.Errorf("reservation %q: %w: it does not only wait for its requester", c.Name, ErrTaken)
	}
	return nil
}

func (c *Close) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Changed = s.position
	r.updateHistory(func(h *History) { h.Closed = true })
}

func (r *Reservation) allProvidersGone() bool {
	for i := range r.Placements {
		if !r.Placements[i].ProviderGone {
			return false
		}
	}
	return true
}
