package ledger

import (
	"fmt"
	"time"
)

// calledBack returns the standing grant of an entry that its provider has recalled, nil if
// there is none.
func (n *naive) calledBack(entry *naiveEntry) *naiveGrant {
	for _, g := range n.standingGrants(entry) {
		if !g.recalled.IsZero() {
			return g
		}
	}
	return nil
}

func (n *naive) refusalsToRecall(c *Recall) (no []error) {
	g := n.findGrant(c.PlacementRef)
	switch {
	case g == nil:
		return []error{ErrUnknown}
	case !g.isStanding():
		return []error{ErrOver}
	}
	if !c.Drained.IsZero() && c.Ends.Before(c.Drained) {
		no = append(no, ErrMalformed)
	}
	known := n.calledBack(g.entry)
	if known == nil && c.Ends.IsZero() || known != nil && known != g {
		no = append(no, ErrTaken)
	}
	return no
}

// recallsDiffer returns an error if the book has another recall for a reservation.
func (n *naive) recallsDiffer(s *State) error {
	for _, entry := range n.entries {
		got := s.Reservation(entry.name).CalledBack()
		switch g := n.calledBack(entry); {
		case (g == nil) != (got == nil):
			return fmt.Errorf("reservation %s: called back %+v, want %+v", entry.name, got, g)
		case g != nil && (got.Placement != g.number || !got.Ends.Equal(g.recalled) || !got.Drained.Equal(g.drained)):
			return fmt.Errorf("reservation %s: called back %+v, want placement %d until %s", entry.name, got, g.number, g.recalled)
		}
	}
	return nil
}

// anyRecall returns a recall of a placement. A recall without Ends withdraws the former one.
func (m *machine) anyRecall(c choose) Event {
	e := &Recall{PlacementRef: m.anyPlacement(c)}
	if c(3) > 0 {
		e.Ends = m.now.Add(time.Duration(c(20)) * time.Second)
		if c(3) == 0 {
			e.Drained = m.now.Add(time.Duration(c(3)) * time.Second)
		}
	}
	return Event{Change: e}
}
