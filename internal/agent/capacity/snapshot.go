package capacity

import "github.com/mehdiazizian/liqo-resource-broker/internal/quantity"

// Snapshot is the state of the accounts at one moment. Do not modify it: it may share parts
// with other snapshots.
type Snapshot struct {
	// Capacity is the sum over all of this cluster's own nodes.
	Capacity quantity.Amounts
	// Allocatable is the sum over the nodes that count, see the package comment.
	Allocatable quantity.Amounts
	// Allocated is the sum of the requests of this cluster's own pods on those nodes.
	Allocated quantity.Amounts
	// Used is the sum of the requests of each placement's pods on those nodes, by placement
	// name. It omits placements without pods.
	Used map[string]quantity.Amounts
	// Pending is the sum of the requests of this cluster's own unschedulable pods. Each of them
	// also counts as one of the resource pods.
	Pending quantity.Amounts
	// Nodes is the number of nodes that count.
	Nodes int
	// NodeShapes groups those nodes by their free amounts, largest first.
	NodeShapes []quantity.NodeShape
}

// Held sums, over placements, the larger of the held and the used amount. stray is the use by
// placements that holds does not name and that is therefore in no other total.
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

// Layout is where the free capacity is at one moment.
type Layout struct {
	// Nodes groups the nodes that count by exactly what is free on each.
	Nodes []quantity.NodeShape
	// Running holds the requests of each placement's pods on those nodes, by placement name.
	Running map[string][]quantity.Amounts
}
