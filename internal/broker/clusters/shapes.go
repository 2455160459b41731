package clusters

import (
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// UpdateShapes updates the outdated node shapes in the market. It deducts what is promised on the
// cluster but not in use yet.
func (cs *Clusters) UpdateShapes() {
	for id := range cs.reshaped {
		cs.updateShapesOf(id)
	}
	clear(cs.reshaped)
}

// UpdateTaintedShapes updates the outdated node shapes of clusters with tainted nodes. On such a
// cluster, every request must fit on the nodes that it tolerates, even a request for which
// NeedsShapes is false.
func (cs *Clusters) UpdateTaintedShapes() {
	for id := range cs.tainted {
		if cs.reshaped[id] {
			cs.updateShapesOf(id)
			delete(cs.reshaped, id)
		}
	}
}

func (cs *Clusters) updateShapesOf(id string) {
	if c := cs.s.Book().Cluster(id); c != nil {
		shapes := c.Shapes
		if cs.extended {
			shapes = c.AllShapes()
		}
		cs.market.SetShapes(id, decision.Debit(shapes, cs.listCommitments(c)))
	}
}

func (cs *Clusters) noteTaints(c *ledger.Cluster) {
	if slices.ContainsFunc(c.AllShapes(), func(s quantity.NodeShape) bool { return len(s.Taints) > 0 }) {
		cs.tainted[c.ClusterID] = true
	} else {
		delete(cs.tainted, c.ClusterID)
	}
}

// listCommitments returns the capacity that is promised on a cluster but not in use. Commitments
// with pod shapes come first, because they are the hardest to place.
func (cs *Clusters) listCommitments(c *ledger.Cluster) []decision.Commitment {
	var shaped, others []decision.Commitment
	commit := func(unused quantity.Amounts, r *ledger.Reserve, used bool) {
		asked := r.Demands()
		out := decision.Commitment{Amounts: unused}
		if asked.Constraints != nil {
			out.Nodes, out.Tolerations = asked.Constraints.NodeSelector, asked.Constraints.Tolerations
		}
		out.Tolerations = requirements.WithDevices(out.Tolerations, r.Amounts)
		// If a part of the reservation is in use, the broker does not know which of its pods are
		// running, so only the amounts are deducted.
		if len(asked.PodShapes) > 0 && !used {
			out.Pods = asked.PodShapes
			shaped = append(shaped, out)
		} else {
			others = append(others, out)
		}
	}
	for name, unused := range c.Unused() {
		if r := cs.s.Book().Placed(name); r != nil {
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
