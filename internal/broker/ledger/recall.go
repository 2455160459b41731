package ledger

import (
	"fmt"
	"time"
)

// Recall records that a placement must be given up by a certain time, because its provider recalls
// it or an administrator drains the provider. If Ends is zero, it records that the placement may
// stay after all.
type Recall struct {
	PlacementRef
	// Ends is when the placement is given up; zero if the recall is withdrawn.
	Ends time.Time `json:"ends,omitzero"`
	// Drained is when an administrator's drain began; the notice of the drain counts from this
	// time. It is zero if the provider recalls the placement.
	Drained time.Time `json:"drained,omitzero"`
	// Message is a text from the provider's operator or the administrator.
	Message string `json:"message,omitempty"`
}

// CallBack is the recall that is stored with a reservation.
type CallBack struct {
	Placement int32
	Ends      time.Time
	Drained   time.Time `json:",omitzero"`
	Message   string    `json:",omitempty"`
}

// Reasons for giving up a placement that was recalled.
const (
	// Recalled: the provider has recalled the placement. The reservation does not return to this
	// provider.
	Recalled = "Recalled"
	// Drained: an administrator of the broker drains the provider. The reservation may return to it
	// after the drain.
	Drained = "Drained"
)

// IsDrain reports whether an administrator's drain is the reason for the recall, rather than the
// provider.
func (c *CallBack) IsDrain() bool { return !c.Drained.IsZero() }

// Reason returns the reason for which the placement is given up: Recalled or Drained.
func (c *CallBack) Reason() string {
	if c.IsDrain() {
		return Drained
	}
	return Recalled
}

// CalledBack returns the recall of a placement that stands, nil if there is none. If two placements
// stand, only one of them can be recalled: a recall of the other one is refused until the first is
// given up.
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
	case !c.Drained.IsZero() && c.Ends.Before(c.Drained):
		return fmt.Errorf("placement %s: %w: its drain ends at %s, before it begins at %s", c.PlacementRef, ErrMalformed, c.Ends, c.Drained)
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
			h.CallBack = &CallBack{Placement: c.Placement, Ends: c.Ends, Drained: c.Drained, Message: c.Message}
		}
	})
}

func (r *Reservation) isCalledBack(p *Placement) bool {
	c := r.CalledBack()
	return c != nil && c.Placement == p.Number
}
