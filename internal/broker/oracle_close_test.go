package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// closedRightly checks that an ended reservation whose providers are gone waits for its
// requester as long as the requester is not silent, and no longer.
func (m *machine) closedRightly(now time.Time) error {
	for _, r := range m.told {
		if r.ended == "" {
			continue
		}
		book := m.session.book.Reservation(r.name)
		phase, answered, back := book.Phase(), true, true
		for i, p := range r.placements {
			answered, back = answered && book.Placements[i].ConsumerGone, back && p.gone
		}
		l := m.lenders[r.requester]
		switch silent := l != nil && l.agent && now.Sub(l.heard) >= 10*time.Minute; {
		case phase == ledger.Releasing && back && (answered || silent):
			return fmt.Errorf("reservation %s of %s is %s: given back, answered %t, silent %t", r.name, r.requester, phase, answered, silent)
		case phase != ledger.Releasing && !back:
			return fmt.Errorf("reservation %s is %s, and is not given back: %+v", r.name, phase, r.placements)
		case phase != ledger.Releasing && !answered && !silent && !r.closed:
			return fmt.Errorf("reservation %s is %s, and %s has not answered", r.name, phase, r.requester)
		}
		r.closed = phase != ledger.Releasing
	}
	return nil
}
