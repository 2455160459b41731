package ledger

import (
	"fmt"
	"time"
)

// IdlePolicy says what happens to an idle reservation: one whose placement no pod uses.
type IdlePolicy struct {
	// After is how long the reservation must be idle.
	After time.Duration `json:"after"`
	// Release is true if the reservation then ends, and false if the broker only tells its
	// requester.
	Release bool `json:"release,omitempty"`
}

// Idle records that a placement is idle, so that its requester is told. If Since is zero, it
// records that the placement is no longer idle.
type Idle struct {
	PlacementRef
	// Since is when the placement became idle.
	Since time.Time `json:"since,omitzero"`
	// Ends is when the reservation is to be released, zero if it is to stay.
	Ends time.Time `json:"ends,omitzero"`
}

// IdleTime is what a reservation stores of an event Idle.
type IdleTime struct {
	Placement int32
	Since     time.Time
	Ends      time.Time `json:",omitzero"`
}

// IdleNow returns the idle time of a placement that stands, nil if no such placement is idle.
func (r *Reservation) IdleNow() *IdleTime {
	if r.History == nil {
		return nil
	}
	return r.IdleTime
}

func (i *Idle) checkAgainst(s *State) error {
	if err := s.checkStanding(i.PlacementRef); err != nil {
		return err
	}
	known := s.reservations[i.Name].IdleNow()
	switch {
	case !i.Ends.IsZero() && (i.Since.IsZero() || i.Ends.Before(i.Since)):
		return fmt.Errorf("placement %s: %w: it is released at %s, and idle since %s", i.PlacementRef, ErrMalformed, i.Ends, i.Since)
	case known != nil && known.Placement != i.Placement:
		return fmt.Errorf("placement %s: %w: placement %d is idle", i.PlacementRef, ErrTaken, known.Placement)
	case known == nil && i.Since.IsZero():
		return fmt.Errorf("placement %s: %w: it is not idle", i.PlacementRef, ErrTaken)
	}
	return nil
}

func (i *Idle) applyTo(s *State, _ time.Time) {
	r := s.reservations[i.Name]
	r.Changed = s.position
	r.updateHistory(func(h *History) {
		h.IdleTime = nil
		if !i.Since.IsZero() {
			h.IdleTime = &IdleTime{Placement: i.Placement, Since: i.Since, Ends: i.Ends}
		}
	})
}
