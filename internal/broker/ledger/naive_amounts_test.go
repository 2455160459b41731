package ledger

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naiveAsked is a change that one provider has to answer.
type naiveAsked struct {
	generation int64
	number     int32
	amounts    quantity.Amounts
}

// mayHold returns the most that a provider may hold for a grant. While the provider has not
// answered a change, that is the larger of both amounts.
func (n *naive) mayHold(g *naiveGrant, resource corev1.ResourceName) int64 {
	most := n.kept[g][resource]
	if asked := g.entry.asked; asked != nil && asked.number == g.number {
		most = max(most, asked.amounts[resource])
	}
	return most
}

// newestGrant returns the last grant that was not given up; if all were given up, the last one; nil
// if there is none.
func (n *naive) newestGrant(entry *naiveEntry) *naiveGrant {
	var newest, kept *naiveGrant
	for _, newest = range n.grantsOf(entry) {
		if !newest.withdrawn {
			kept = newest
		}
	}
	if kept != nil {
		return kept
	}
	return newest
}

func (n *naive) refusalsToChange(c *Edit, entry *naiveEntry) (no []error) {
	if c.Amounts == nil || entry == nil {
		return nil
	}
	if c.Amounts.IsZero() {
		no = append(no, ErrMalformed)
	}
	if entry.asked != nil {
		no = append(no, ErrTaken)
	}
	g := n.newestGrant(entry)
	if g == nil || !g.isStanding() {
		return no
	}
	if n.hasAgent(g.provider) && g.acked.IsZero() || len(n.standingGrants(entry)) > 1 {
		no = append(no, ErrTaken)
	}
	for resource, want := range c.Amounts {
		now := max(n.mayHold(g, resource), n.clusters[g.provider].last.Used[g.placementName()][resource])
		if more := want - now; more > 0 && more > n.freeAmount(g.provider, resource) {
			no = append(no, ErrOverbooked)
		}
	}
	return no
}

func (n *naive) changeAmounts(c *Edit, entry *naiveEntry) {
	if c.Amounts == nil {
		return
	}
	g := n.newestGrant(entry)
	if g != nil && g.isStanding() && n.hasAgent(g.provider) {
		entry.asked = &naiveAsked{c.Generation, g.number, c.Amounts}
		return
	}
	entry.amounts = c.Amounts
	if g != nil && g.isStanding() {
		n.kept[g] = c.Amounts
	}
}

func (n *naive) refusalsToSettle(e *Settle) []error {
	g := n.findGrant(e.PlacementRef)
	if g == nil {
		return []error{ErrUnknown}
	}
	if asked := g.entry.asked; asked == nil || asked.number != e.Placement || asked.generation != e.Generation || len(n.standingGrants(g.entry)) > 1 {
		return []error{ErrTaken}
	}
	return nil
}

func (n *naive) settleAmounts(e *Settle) {
	g := n.findGrant(e.PlacementRef)
	if e.Refused == "" {
		n.kept[g], g.entry.amounts = g.entry.asked.amounts, g.entry.asked.amounts
	}
	g.entry.asked = nil
}

// dropUnanswered ends a change whose grant was given up before the provider answered. The grant
// keeps the larger amounts. A reduction applies if no other grant stands; any other change is
// dropped.
func (n *naive) dropUnanswered(g *naiveGrant) {
	asked := g.entry.asked
	if asked == nil || asked.number != g.number {
		return
	}
	all, less := quantity.Amounts{}, true
	for _, resource := range resources {
		all[resource] = n.mayHold(g, resource)
		less = less && asked.amounts[resource] <= g.entry.amounts[resource]
	}
	n.kept[g], g.entry.asked = all, nil
	if less && g.entry.end == "" && len(n.standingGrants(g.entry)) == 0 {
		g.entry.amounts = asked.amounts
	}
}

func (n *naive) refusalsToRestate(e *Restate) (no []error) {
	g := n.findGrant(e.PlacementRef)
	if g == nil {
		return []error{ErrUnknown}
	}
	if g.left {
		no = append(no, ErrOver)
	}
	if g.entry.asked != nil {
		no = append(no, ErrTaken)
	}
	if e.Amounts.IsZero() {
		no = append(no, ErrMalformed)
	}
	for resource, amount := range e.Amounts {
		if n.sumHeld(g.provider, resource)-n.mayHold(g, resource) > quantity.Limit-amount {
			no = append(no, ErrOverbooked)
		}
	}
	return no
}

func (n *naive) restateAmounts(e *Restate) {
	g := n.findGrant(e.PlacementRef)
	n.kept[g] = e.Amounts
	if g == n.newestGrant(g.entry) && g.isStanding() {
		g.entry.amounts = e.Amounts
	}
}
