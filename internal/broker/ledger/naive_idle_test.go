package ledger

import (
	"fmt"
	"time"
)

// idleGrant returns the standing grant of an entry that is recorded as idle, nil if there is none.
func (n *naive) idleGrant(entry *naiveEntry) *naiveGrant {
	for _, g := range n.standingGrants(entry) {
		if !g.idle.IsZero() {
			return g
		}
	}
	return nil
}

func (n *naive) refusalsToIdle(i *Idle) (no []error) {
	g := n.findGrant(i.PlacementRef)
	switch {
	case g == nil:
		return []error{ErrUnknown}
	case !g.isStanding():
		return []error{ErrOver}
	}
	if !i.Ends.IsZero() && (i.Since.IsZero() || i.Ends.Before(i.Since)) {
		no = append(no, ErrMalformed)
	}
	known := n.idleGrant(g.entry)
	if known == nil && i.Since.IsZero() || known != nil && known != g {
		no = append(no, ErrTaken)
	}
	return no
}

// idleDiffers returns an error if the book has another idle time for a reservation.
func (n *naive) idleDiffers(s *State) error {
	for _, entry := range n.entries {
		got := s.Reservation(entry.name).IdleNow()
		switch g := n.idleGrant(entry); {
		case (g == nil) != (got == nil):
			return fmt.Errorf("reservation %s: idle %+v, want %+v", entry.name, got, g)
		case g != nil && (got.Placement != g.number || !got.Since.Equal(g.idle) || !got.Ends.Equal(g.idleEnds)):
			return fmt.Errorf("reservation %s: idle %+v, want placement %d since %s until %s", entry.name, got, g.number, g.idle, g.idleEnds)
		}
	}
	return nil
}

// anyIdle returns a record of the idle time of a placement. A record without Since says that the
// placement is used again.
func (m *machine) anyIdle(c choose) Event {
	e := &Idle{PlacementRef: m.anyPlacement(c)}
	if c(3) > 0 {
		e.Since = m.now.Add(-time.Duration(c(20)) * time.Second)
	}
	if c(2) == 0 {
		e.Ends = m.now.Add(time.Duration(c(40)-20) * time.Second)
	}
	return Event{Change: e}
}
