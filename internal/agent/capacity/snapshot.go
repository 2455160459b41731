package capacity

import "github.com/mehdiazizian/liqo-resource-broker/internal/quantity"

// Snapshot is the state of the accounts at one moment. Its parts may be shared
// with other snapshots: they are not to be changed.
type Snapshot struct {
	// Capacity of all nodes of this cluster's own.
	Capacity quantity.Amounts
	// Allocatable of the nodes that are Ready and schedulable.
	Allocatable quantity.Amounts
	// Allocated is what this cluster's own pods request on those nodes.
	Allocated quantity.Amounts
	// Used is what the pods of each placement request on those nodes, by the name
	// of the placement. A placement without a pod is not named.
	Used map[string]quantity.Amounts
	// Pending is what pods of this cluster's own request that the scheduler finds no
	// node for; each of them is one of its pods.
	Pending quantity.Amounts
	// Nodes that are Ready and schedulable.
	Nodes int
	// NodeShapes counts those nodes by what is free on them, largest first.
	NodeShapes []Shape
}

// Shape counts the nodes that have at least the same amounts free.
type Shape struct {
	Count int32
	Free  quantity.Amounts
	// Labels that they all have, of those that are shown; not to be changed.
	Labels map[string]string
}

// Held sums, over placements, the larger of what is held for one and what it
// uses. The second result is what is used by placements that are not named in
// holds; nobody else accounts for it.
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
