package broker

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// needsShapes reports whether a request has to fit on individual nodes, not only into sums.
func needsShapes(q *Request) bool {
	demands := q.Demands()
	return len(demands.PodShapes) > 0 || demands.Constraints != nil && len(demands.Constraints.NodeSelector) > 0
}

// updateShapes updates outdated node shapes in the market. It deducts capacity that is promised
// on a cluster but not in use yet.
func (cs *clusters) updateShapes() {
	for id := range cs.reshaped {
		if c := cs.s.book.Cluster(id); c != nil {
			cs.s.market.SetShapes(id, decision.Debit(c.Shapes, cs.listCommitments(c)))
		}
	}
	clear(cs.reshaped)
}

// listCommitments returns the capacity that is promised on a cluster and not in use. Pod shapes
// come first, because they are the hardest to place.
func (cs *clusters) listCommitments(c *ledger.Cluster) []decision.Commitment {
	var shaped, others []decision.Commitment
	commit := func(unused quantity.Amounts, r *ledger.Reserve, used bool) {
		asked := r.Demands()
		out := decision.Commitment{Amounts: unused}
		if asked.Constraints != nil {
			out.Nodes = asked.Constraints.NodeSelector
		}
		// Once a part is in use, the broker does not know which pods of the shapes run.
		if len(asked.PodShapes) > 0 && !used {
			out.Pods = asked.PodShapes
			shaped = append(shaped, out)
		} else {
			others = append(others, out)
		}
	}
	for name, unused := range c.Unused() {
		if r := cs.s.book.Placed(name); r != nil {
			commit(unused, &r.Reserve, !c.Used[name].IsZero())
		} else {
			commit(unused, &ledger.Reserve{}, false)
		}
	}
	for _, held := range c.Quoted() {
		commit(held.Amounts, &held.Reserve, false)
	}
	return append(shaped, others...)
}
