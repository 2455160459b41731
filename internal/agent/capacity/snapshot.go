package capacity

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Snapshot holds the totals at one moment. It may share maps with other snapshots: do not modify
// it.
type Snapshot struct {
	// Capacity is the sum over all nodes of this cluster, without virtual nodes.
	Capacity quantity.Amounts
	// Allocatable is the sum over the nodes that count (see the package comment).
	Allocatable quantity.Amounts
	// Allocated is the sum of the requests of this cluster's own pods on the nodes that count.
	Allocated quantity.Amounts
	// Used is, for each placement by name, the sum of the requests of its pods on the nodes that
	// count. Placements without pods are not in it.
	Used map[string]quantity.Amounts
	// Pending is the sum of the requests of this cluster's own unschedulable pods. It includes each
	// pod itself, as 1 of the resource "pods".
	Pending quantity.Amounts
	// PendingSince is when the scheduler first found no node for the pod that has waited longest.
	// It is zero if there is none.
	PendingSince time.Time
	// Nodes is the number of nodes that count (see the package comment).
	Nodes int
	// Groups are the labels of the groups that were passed to Lend when the nodes were listed last, and
	// NodesPerGroup is how many nodes each of them has, whether or not they count.
	Groups        []map[string]string
	NodesPerGroup []int64
	// NodeShapes groups the nodes that count by their free amounts, labels and taints. The shapes
	// with the most free capacity come first.
	NodeShapes []quantity.NodeShape
}

// Held returns two sums. held adds up, for each placement in holds, the reserved or the used
// amount, whichever is larger. stray adds up the amounts that all other placements use. No other
// total contains these amounts.
func (s *Snapshot) Held(holds map[string]quantity.Amounts) (held, stray quantity.Amounts) {
	held, stray = quantity.Amounts{}, quantity.Amounts{}
	for name, hold := range holds {
		held = held.Add(hold.Max(s.Used[name]))
	}
	for name, used := range s.Used {
		if _, ok := holds[name]; !ok {
			stray = stray.Add(used)
		}
	}
	return held, stray
}

// Layout describes where free capacity is at one moment.
type Layout struct {
	// Nodes groups the nodes that count (see the package comment) by their exact free amounts, labels
	// and taints.
	Nodes []quantity.NodeShape
	// Running holds, for each placement by name, the requests of each of its pods on the nodes that
	// count.
	Running map[string][]quantity.Amounts
}

func (n *node) freeOf(name corev1.ResourceName) int64 {
	left := n.facts.allocatable[name] - n.own[name]
	for _, t := range n.used {
		left -= t.sum[name]
	}
	return max(left, 0)
}

func (n *node) freeAmounts() quantity.Amounts {
	room := make(quantity.Amounts, len(n.facts.allocatable))
	for name := range n.facts.allocatable {
		room[name] = n.freeOf(name)
	}
	return room
}

// newLayout returns the free amounts of all nodes and the requests of the placements' pods. It
// visits every pod, so it is too expensive to be called after every event.
func (a *accounts) newLayout() Layout {
	a.updateHistogram()
	out := Layout{Nodes: a.histogram.shapesAt(0), Running: map[string][]quantity.Amounts{}}
	for _, r := range a.pods {
		if r.placement != nil && r.node.facts.counts {
			request := quantity.Amounts{}
			r.request.addTo(request, +1)
			out.Running[r.placement.name] = append(out.Running[r.placement.name], request)
		}
	}
	return out
}

func (a *accounts) updateHistogram() {
	for n := range a.reshaped {
		a.histogram.moveNode(n)
	}
	clear(a.reshaped)
}

func (a *accounts) newSnapshot() Snapshot {
	a.updateHistogram()
	used := make(map[string]quantity.Amounts, len(a.used))
	for name, p := range a.used {
		used[name] = p.sum.Clone()
	}
	return Snapshot{
		Capacity:    a.capacity.Clone(),
		Allocatable: a.allocatable.Clone(),
		Allocated:   a.allocated.Clone(),
		Used:        used,
		Pending:     a.pending.sum.Clone(), PendingSince: a.pending.waitingSince(),
		Nodes:      a.counted,
		NodeShapes: a.histogram.finestShapes(),
	}
}

// fitsFree reports whether a request fits next to what all pods request, and which resource is short if not.
func (a *accounts) fitsFree(request quantity.Amounts) (quantity.Shortage, bool) {
	free := maps.Clone(a.allocatable)
	addTo(free, a.allocated, -1)
	for _, p := range a.used {
		addTo(free, p.sum, -1)
	}
	return quantity.Fits(request, free)
}
