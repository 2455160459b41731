package ledger

import (
	"fmt"
	"time"
)

// Close ends the wait for the agent of a requester, of which nothing is heard: everything
// that was held is free. The agent is told all the same, should it come back, and the
// reservation is not forgotten before it has taken its side down.
type Close struct {
	Name string `json:"name"`
}

// Closable is whether nothing but the requester's word is missing of the end of a
// reservation.
func (s *State) Closable(r *Reservation) bool {
	return s.Phase(r) == Releasing && r.givenBack()
}

// givenBack is whether every provider has confirmed that nothing is left.
func (r *Reservation) givenBack() bool {
	for i := range r.Placements {
		if !r.Placements[i].ProviderGone {
			return false
		}
	}
	return true
}

func (c *Close) subject() string { return c.Name }

func (c *Close) checkAgainst(s *State) error {
	r := s.reservations[c.Name]
	switch {
	case r == nil:
		return fmt.Errorf("reservation %q: %w", c.Name, ErrUnknown)
	case !s.Closable(r):
		return fmt.Errorf("reservation %q: %w: it does not wait for its requester alone", c.Name, ErrTaken)
	}
	return nil
}

func (c *Close) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Changed = s.position
	r.remember(func(h *History) { h.Closed = true })
}
