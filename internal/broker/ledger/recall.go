package ledger

import (
	"fmt"
	"time"
)

// Recall notes that the provider of a placement calls it back, or has withdrawn that.
type Recall struct {
	PlacementRef
	// Ends is when the placement is given up; zero where it stays after all.
	Ends time.Time `json:"ends,omitzero"`
	// Message is of the provider's operator, for people.
	Message string `json:"message,omitempty"`
}

// CallBack is what the book keeps of a Recall.
type CallBack struct {
	Placement int32
	Ends      time.Time
	Message   string `json:",omitempty"`
}

// Recalled is why a placement is given up that its provider has called back.
const Recalled = "Recalled"

// CalledBack is the placement that stands and is called back; nil if none is. Of two that
// stand it is one alone: what is said of the other one counts once this one is settled.
func (r *Reservation) CalledBack() *CallBack {
	if r.History == nil {
		return nil
	}
	return r.CallBack
}

// isCalledBack is whether its provider wants this placement back.
func (r *Reservation) isCalledBack(p *Placement) bool {
	c := r.CalledBack()
	return c != nil && c.Placement == p.Number
}

func (c *Recall) checkAgainst(s *State) error {
	if err := s.checkStanding(c.PlacementRef); err != nil {
		return err
	}
	known := s.reservations[c.Name].CalledBack()
	switch {
	case known != nil && known.Placement != c.Placement:
		return fmt.Errorf("placement %s: %w: placement %d is called back", c.PlacementRef, ErrTaken, known.Placement)
	case known == nil && c.Ends.IsZero():
		return fmt.Errorf("placement %s: %w: it is not called back", c.PlacementRef, ErrTaken)
	}
	return nil
}

func (c *Recall) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Changed = s.position
	r.remember(func(h *History) {
		h.CallBack = nil
		if !c.Ends.IsZero() {
			h.CallBack = &CallBack{Placement: c.Placement, Ends: c.Ends, Message: c.Message}
		}
	})
}
