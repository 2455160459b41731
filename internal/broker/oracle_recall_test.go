package broker

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// anyRecall makes a lender keep, begin, postpone or withdraw a recall.
func (m *machine) anyRecall(c choose, id string, said *lender, usage *v1.Usage) {
	placement := brokerv1alpha1.PlacementName(usage.Reservation, usage.Placement)
	ends, had := m.wanted(id, placement)
	switch choice := c(16); {
	case had && choice < 2, !had && choice > 0:
		return
	case !had, choice == 2:
		ends = m.now().Add(time.Duration(c(200)) * time.Second)
	}
	said.recalls[placement] = ends
	known := m.told[usage.Reservation].recall
	said.unheard[placement] = known != nil && known.Placement != usage.Placement
	usage.Recall = recallOf(said, placement, m.now())
}

// recallOf returns a lender's recall of a placement, nil for none.
func recallOf(l *lender, placement string, now time.Time) *v1.Recall {
	ends, ok := l.recalls[placement]
	if !ok {
		return nil
	}
	return &v1.Recall{RemainingSeconds: max(ends.Sub(now), 0).Seconds()}
}

// wanted returns the end of a lender's recall of a placement.
func (o *oracle) wanted(id, placement string) (time.Time, bool) {
	l := o.lenders[id]
	if l == nil {
		return time.Time{}, false
	}
	ends, ok := l.recalls[placement]
	return ends, ok
}

// wantsBack reports whether the lender has recalled a placement, and returns the earliest end
// that the broker may apply.
func (o *oracle) wantsBack(known *told, number int32) (time.Time, bool) {
	ends, ok := o.wanted(known.placements[number-1].provider, brokerv1alpha1.PlacementName(known.name, number))
	if c := known.recall; c != nil && c.Placement == number && (!ok || c.Ends.Before(ends)) {
		return c.Ends, true
	}
	return ends, ok
}

// recalledRightly checks that only its lender recalls a placement, and that the reservation
// leaves it only at the end of the recall or once another cluster serves.
func (o *oracle) recalledRightly(known *told, r *ledger.Reservation, now time.Time) error {
	for i := range known.placements {
		p := &r.Placements[i]
		if known.placements[i].givenUp || p.Withdrawn != ledger.Recalled || r.EndReason != "" {
			continue
		}
		ends, ok := o.wantsBack(known, p.Number)
		serves := r.Stands(r.Current()) && o.isThere(known, r.Current())
		if !ok || now.Before(ends.Add(-sameRecall)) && !serves {
			return fmt.Errorf("%s was left as called back (is it: %t) until %s, and nobody else serves: %+v", p.Provider, ok, ends, r.Placements)
		}
	}
	was, is := known.recall, r.CalledBack()
	known.recall = nil
	if is == nil {
		if was == nil || !r.Stands(r.Placement(was.Placement)) {
			return nil
		}
		if ends, ok := o.wantsBack(known, was.Placement); ok {
			return fmt.Errorf("placement %d is not called back any more, its lender wants it until %s", was.Placement, ends)
		}
		return nil
	}
	ends, ok := o.wantsBack(known, is.Placement)
	if !ok || ends.Sub(is.Ends).Abs() > sameRecall {
		return fmt.Errorf("it is called back until %s, its lender wants it (%t) until %s", is.Ends, ok, ends)
	}
	kept := *is
	known.recall = &kept
	return nil
}

// recallsSettled returns an error if a lender waits for a recall that is overdue. A broker that
// started recently may take longer.
func (o *oracle) recallsSettled(now, began time.Time) error {
	for _, r := range o.told {
		if c := r.recall; c != nil {
			if _, ok := o.wanted(r.placements[c.Placement-1].provider, brokerv1alpha1.PlacementName(r.name, c.Placement)); !ok {
				return fmt.Errorf("%s is called back until %s, and its lender does not want it any more", r.name, c.Ends)
			}
		}
		for i, p := range r.placements {
			number := int32(i + 1)
			ends, ok := o.wanted(p.provider, brokerv1alpha1.PlacementName(r.name, number))
			if p.givenUp || !ok {
				continue
			}
			if r.recall == nil && o.lenders[p.provider].unheard[brokerv1alpha1.PlacementName(r.name, number)] {
				continue
			}
			if r.recall == nil {
				return fmt.Errorf("%s wants %s-%d back until %s, and nobody is told", p.provider, r.name, number, ends)
			}
			patience := laterOf(r.recall.Ends, began.Add(limits.Ready))
			if r.recall.Placement == number && !now.Before(patience) {
				return fmt.Errorf("%s wanted %s-%d back until %s, and it stands", p.provider, r.name, number, r.recall.Ends)
			}
		}
	}
	return nil
}
