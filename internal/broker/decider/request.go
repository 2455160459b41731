package decider

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
)

// NewDecisionRequest converts a request to the form that package decision reads. Before that, it
// updates the node shapes in the market on which the decision depends.
func (d *Decider) NewDecisionRequest(q *requests.Request, tried ledger.Tried) *decision.Request {
	if q.NeedsShapes() {
		d.s.UpdateShapes()
	} else {
		d.s.UpdateTaintedShapes()
	}
	near, apart := d.neighboursOf(q)
	demands := q.Demands()
	return &decision.Request{
		Requester: q.Requester, Amounts: q.Amounts, Exclude: tried.Excluded, Avoid: tried.Avoided, Weights: d.s.Weights(),
		PodShapes: demands.PodShapes, Constraints: demands.Constraints, Near: near, Apart: apart, Data: demands.Data, Duration: q.Duration,
		Left: q.TimeLeft(d.s.Now()),
	}
}

// neighboursOf returns the providers that affinity requires (near) and those that anti-affinity
// excludes (apart), from the requester's other standing reservations and its held quotes.
// Anti-affinity applies in both directions. If no reservation of the groups that the affinity names
// has a placement yet, near is empty and every cluster satisfies the affinity.
func (d *Decider) neighboursOf(q *requests.Request) (near, apart []string) {
	demands := q.Demands()
	affinity, anti := requests.Groups(demands.Constraints)
	if demands.Group == "" && len(affinity) == 0 && len(anti) == 0 {
		return nil, nil
	}
	wanted, unwanted := map[string]bool{}, map[string]bool{}
	look := func(r *ledger.Reserve, provider string) {
		joins, keepsOff := relateGroups(demands.Group, r.Demands(), affinity, anti)
		if joins {
			wanted[provider] = true
		}
		if keepsOff {
			unwanted[provider] = true
		}
	}
	for _, r := range d.s.ReservationsOf(q.Requester) {
		if r.Requester != q.Requester || r.Key == q.Key || !r.Stands(r.Current()) {
			continue
		}
		for i := range r.Placements {
			if p := &r.Placements[i]; r.Stands(p) {
				look(&r.Reserve, p.Provider)
			}
		}
	}
	for _, held := range d.s.Book().Quotes().HeldFor(q.Requester) {
		look(&held.Reserve, held.Provider)
	}
	return slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(unwanted))
}

// relateGroups relates a request in a group to another request. joins is true if the request must
// be placed with the other one. keepsOff is true if either of the two must be kept apart from the
// other. affinity and anti are the groups that the request names.
func relateGroups(group string, other brokerv1alpha1.Requirements, affinity, anti []string) (joins, keepsOff bool) {
	_, theirs := requests.Groups(other.Constraints)
	joins = other.Group != "" && slices.Contains(affinity, other.Group)
	keepsOff = other.Group != "" && slices.Contains(anti, other.Group) || group != "" && slices.Contains(theirs, group)
	return joins, keepsOff
}
