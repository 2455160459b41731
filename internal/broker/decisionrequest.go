package broker

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
)

// newDecisionRequest converts a request to the form that package decision reads. Before that, it
// updates the node shapes in the market on which the decision depends.
func (d *decider) newDecisionRequest(q *requests.Request, tried ledger.Tried) *decision.Request {
	if q.NeedsShapes() {
		d.s.clusters.updateShapes()
	} else {
		d.s.clusters.updateTaintedShapes()
	}
	near, apart := d.neighboursOf(q)
	demands := q.Demands()
	return &decision.Request{
		Requester: q.Requester, Amounts: q.Amounts, Exclude: tried.Excluded, Avoid: tried.Avoided, Weights: d.s.config().Weights,
		PodShapes: demands.PodShapes, Constraints: demands.Constraints, Near: near, Apart: apart, Data: demands.Data, Duration: q.Duration,
	}
}

// neighboursOf returns the providers that affinity requires (near) and those that anti-affinity
// excludes (apart), from the requester's other standing reservations and its held quotes.
// Anti-affinity applies in both directions. If no reservation of the groups that the affinity names
// has a placement yet, near is empty and every cluster satisfies the affinity.
func (d *decider) neighboursOf(q *requests.Request) (near, apart []string) {
	demands := q.Demands()
	affinity, anti := groupsOf(demands.Constraints)
	if demands.Group == "" && len(affinity) == 0 && len(anti) == 0 {
		return nil, nil
	}
	wanted, unwanted := clusterSet{}, clusterSet{}
	look := func(r *ledger.Reserve, provider string) {
		joins, keepsOff := relateGroups(demands.Group, r.Demands(), affinity, anti)
		if joins {
			wanted.add(provider)
		}
		if keepsOff {
			unwanted.add(provider)
		}
	}
	for _, r := range d.s.news.reservationsOf(q.Requester) {
		if r.Requester != q.Requester || r.Key == q.Key || !r.Stands(r.Current()) {
			continue
		}
		for i := range r.Placements {
			if p := &r.Placements[i]; r.Stands(p) {
				look(&r.Reserve, p.Provider)
			}
		}
	}
	for _, held := range d.s.book.Quotes().HeldFor(q.Requester) {
		look(&held.Reserve, held.Provider)
	}
	return wanted.sorted(), unwanted.sorted()
}

// relateGroups relates a request in a group to another request. joins is true if the request must
// be placed with the other one. keepsOff is true if either of the two must be kept apart from the
// other. affinity and anti are the groups that the request names.
func relateGroups(group string, other brokerv1alpha1.Requirements, affinity, anti []string) (joins, keepsOff bool) {
	_, theirs := groupsOf(other.Constraints)
	joins = other.Group != "" && slices.Contains(affinity, other.Group)
	keepsOff = other.Group != "" && slices.Contains(anti, other.Group) || group != "" && slices.Contains(theirs, group)
	return joins, keepsOff
}

// noteAffinity tells the queue that any cluster may now serve a waiting request of the same
// requester, if an affinity or anti-affinity relates that request to this reservation.
func (qu *queueing) noteAffinity(r *ledger.Reserve) {
	asked := r.Demands()
	_, anti := groupsOf(asked.Constraints)
	if asked.Group == "" && len(anti) == 0 {
		return
	}
	qu.line.All(func(name string) bool {
		w := qu.s.book.Reservation(name)
		waits := w.Demands()
		affinity, against := groupsOf(waits.Constraints)
		related := slices.Contains(affinity, asked.Group) || slices.Contains(against, asked.Group) || slices.Contains(anti, waits.Group)
		if w.Requester != r.Requester || !related {
			return true
		}
		qu.noteAllFreed()
		return false
	})
}

func groupsOf(k *brokerv1alpha1.Constraints) (affinity, anti []string) {
	if k == nil {
		return nil, nil
	}
	return k.Affinity, k.AntiAffinity
}

type clusterSet map[string]struct{}

func (s clusterSet) add(id string) { s[id] = struct{}{} }

func (s clusterSet) sorted() []string { return slices.Sorted(maps.Keys(s)) }
