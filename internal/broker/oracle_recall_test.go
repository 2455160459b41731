package broker

import (
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reservations"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// anyRecall makes a lender keep, begin, change or withdraw the recall of a placement.
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

// wanted returns the end of a lender's recall of a placement, and whether there is such a recall.
func (o *oracle) wanted(id, placement string) (time.Time, bool) {
	l := o.lenders[id]
	if l == nil {
		return time.Time{}, false
	}
	ends, ok := l.recalls[placement]
	return ends, ok
}

// wantsBack reports whether a lender has recalled a placement or is drained. It also returns the
// earliest end that the broker may apply.
func (o *oracle) wantsBack(known *told, number int32) (time.Time, bool) {
	provider := known.placements[number-1].provider
	ends, ok := o.wanted(provider, brokerv1alpha1.PlacementName(known.name, number))
	if d, drained := o.findEmptying(provider); drained && (!ok || o.rules.drainedAt[provider].Add(d.Notice).Before(ends)) {
		ends, ok = o.rules.drainedAt[provider].Add(d.Notice), true
	}
	if c := known.recall; c != nil && c.Placement == number && (!ok || c.Ends.Before(ends)) {
		return c.Ends, true
	}
	return ends, ok
}

// recalledRightly checks that a placement is recalled only by its lender or by a drain, and that
// the reservation leaves it only at the end of the recall or once another cluster serves.
func (o *oracle) recalledRightly(known *told, r *ledger.Reservation, now time.Time) error {
	for i := range known.placements {
		p := &r.Placements[i]
		if known.placements[i].givenUp || p.Withdrawn != ledger.Recalled && p.Withdrawn != ledger.Drained || r.EndReason != "" {
			continue
		}
		ends, ok := o.wantsBack(known, p.Number)
		if !ok {
			return fmt.Errorf("%s was left as called back, and is not: %+v", p.Provider, r.Placements)
		}
		// The provider that serves may be called back in the same step, so that the next one is beside it.
		serves := slices.ContainsFunc(r.Placements, func(p ledger.Placement) bool { return r.Stands(&p) && o.isThere(known, &p) })
		if now.Before(ends.Add(-reservations.SameRecall)) && !serves {
			return fmt.Errorf("%s was left as called back until %s, and nobody else serves it: %+v", p.Provider, ends, r.Placements)
		}
	}
	was, is := known.recall, r.CalledBack()
	known.recall = nil
	if is == nil {
		if was == nil || !r.Stands(r.Placement(was.Placement)) {
			return nil
		}
		if ends, ok := o.wantsBack(known, was.Placement); ok && !o.isUnheard(known, was.Placement) {
			return fmt.Errorf("placement %d is not called back any more, its lender wants it until %s", was.Placement, ends)
		}
		return nil
	}
	if err := o.recallAllowed(known, is, now); err != nil {
		return err
	}
	kept := *is
	known.recall = &kept
	return nil
}

// recallAllowed returns an error if the broker applies a recall that it must not: one that the
// lender has not asked for and no drain caused, or one that ends later than a drain.
func (o *oracle) recallAllowed(known *told, c *ledger.CallBack, now time.Time) error {
	provider := known.placements[c.Placement-1].provider
	d, drained := o.findEmptying(provider)
	if c.IsDrain() {
		if began := o.rules.drainedAt[provider]; !drained || c.Drained.Before(began) || c.Drained.After(now) || !c.Ends.Equal(c.Drained.Add(d.Notice)) {
			return fmt.Errorf("it is recalled from %s until %s, and its lender is drained (%t) since %s with %s", c.Drained, c.Ends, drained, began, d.Notice)
		}
		return nil
	}
	ends, ok := o.wanted(provider, brokerv1alpha1.PlacementName(known.name, c.Placement))
	if !ok || ends.Sub(c.Ends).Abs() > reservations.SameRecall {
		return fmt.Errorf("it is called back until %s, its lender wants it (%t) until %s", c.Ends, ok, ends)
	}
	if drained && c.Ends.After(now.Add(d.Notice)) {
		return fmt.Errorf("it is called back until %s, and its lender is drained with a notice of %s", c.Ends, d.Notice)
	}
	return nil
}

// isUnheard reports whether a lender's recall takes effect only when the lender repeats it.
func (o *oracle) isUnheard(known *told, number int32) bool {
	return o.lenders[known.placements[number-1].provider].unheard[brokerv1alpha1.PlacementName(known.name, number)]
}

// recallsSettled returns an error if the broker does not apply a recall or a drain, or if a
// placement stands after the end of its recall. A broker that started recently may take longer.
func (o *oracle) recallsSettled(now, began time.Time) error {
	for _, r := range o.told {
		if c := r.recall; c != nil {
			if err := o.recallAllowed(r, c, now); err != nil {
				return fmt.Errorf("reservation %s: %w", r.name, err)
			}
		}
		for i, p := range r.placements {
			number := int32(i + 1)
			ends, ok := o.wanted(p.provider, brokerv1alpha1.PlacementName(r.name, number))
			if _, drained := o.findEmptying(p.provider); drained && !p.givenUp && r.recall == nil {
				return fmt.Errorf("%s is drained, and %s-%d is not recalled", p.provider, r.name, number)
			}
			if p.givenUp || !ok {
				continue
			}
			if r.recall == nil && o.lenders[p.provider].unheard[brokerv1alpha1.PlacementName(r.name, number)] {
				continue
			}
			if r.recall == nil {
				return fmt.Errorf("%s wants %s-%d back until %s, and nobody is told", p.provider, r.name, number, ends)
			}
			patience := term.Later(r.recall.Ends, began.Add(limits.Ready))
			if r.recall.Placement == number && !now.Before(patience) {
				return fmt.Errorf("%s wanted %s-%d back until %s, and it stands", p.provider, r.name, number, r.recall.Ends)
			}
		}
	}
	return nil
}
