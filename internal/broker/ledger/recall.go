package ledger

import (
	"fmt"
	"time"
)

// Recall notes that the provider of a placement recalls it, or withdraws its recall.
type Recall struct {
	PlacementRef
	// Ends is when the placement is given up; zero if the recall is withdrawn.
	Ends time.Time `json:"ends,omitzero"`
	// Message is from the provider's operator.
	Message string `json:"message,omitempty"`
}

// CallBack is the state that a reservation keeps of a Recall.
type CallBack struct {
	Placement int32
	Ends      time.Time
	Message   string `json:",omitempty"`
}

// Recalled is the reason for giving up a placement that its provider has recalled.
const Recalled = "Recalled"

// CalledBack returns the recall of a standing placement, nil if there is none. Only one of two
// standing placements can be recalled at a time: a recall of the other one is refused until the
// first is given up.
func (r *Reservation) CalledBack() *CallBack {
	if r.History == nil {
		return nil
	}
	return r.CallBack
}

func (c *Recall) checkAgainst(s *State) error {
	if err := s.checkStanding(c.PlacementRef); err != nil {
		return err
	}
	known := s.reservations[c.Name].CalledBack()
	switch {
	case known != nil && known.Placement != c.Placement:
		return fmt.Errorf("placement %s: %w: placement %d is already called back", c.PlacementRef, ErrTaken, known.Placement)
	case known == nil && c.Ends.IsZero():
		return fmt.Errorf("placement %s: %w: it is not called back", c.PlacementRef, ErrTaken)
	}
	return nil
}

func (c *Recall) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Changed = s.position
	r.updateHistory(func(h *History) {
		h.CallBack = nil
		if !c.Ends.IsZero() {
			h.CallBack = &CallBack{Placement: c.Placement, Ends: c.Ends, Message: c.Message}
		}
	})
}

// isCalledBack reports whether this placement is recalled.
func (r *Reservation) isCalledBack(p *Placement) bool {
	c := r.CalledBack()
	return c != nil && c.Placement == p.Number
}
