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
	known := n.calledBack(g.entry)
	if known == nil && c.Ends.IsZero() || known != nil && known != g {
		no = append(no, ErrTaken)
	}
	return no
}

// recallsDiffer describes how the recalls of the book differ.
func (n *naive) recallsDiffer(s *State) error {
	for _, entry := range n.entries {
		got := s.Reservation(entry.name).CalledBack()
		switch g := n.calledBack(entry); {
		case (g == nil) != (got == nil):
			return fmt.Errorf("reservation %s: called back %+v, want %+v", entry.name, got, g)
		case g != nil && (got.Placement != g.number || !got.Ends.Equal(g.recalled)):
			return fmt.Errorf("reservation %s: called back %+v, want placement %d until %s", entry.name, got, g.number, g.recalled)
		}
	}
	return nil
}

// anyRecall sometimes withdraws the recall.
func (m *machine) anyRecall(c choose) Event {
	e := &Recall{PlacementRef: m.anyPlacement(c)}
	if c(3) > 0 {
		e.Ends = m.now.Add(time.Duration(c(20)) * time.Second)
	}
	return Event{Change: e}
}
