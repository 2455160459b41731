package offering

import (
	"maps"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// NodeGroup describes nodes that this cluster creates when pods need them, usually through a cluster
// autoscaler.
type NodeGroup struct {
	Name string
	// Nodes is how many nodes the group may have, including existing ones.
	Nodes int64
	// Each is what pods can request on a new node.
	Each quantity.Amounts
	// Labels are labels that all nodes of the group have, and no other node.
	Labels map[string]string
	// Taints are the taints of its nodes.
	Taints []brokerv1alpha1.Taint
	// ReadyWithin is how long the creation of nodes may take.
	ReadyWithin time.Duration
}

// NewNodes returns count new nodes of the group.
func (g *NodeGroup) NewNodes(count int64) quantity.NodeShape {
	return quantity.NodeShape{Count: count, Free: g.Each, Labels: g.Labels, Taints: g.Taints}
}

// Extension returns how much more is lent once the new nodes exist. Their capacity is not
// over-subscribed before.
func (t *Rules) Extension(allocatable, own quantity.Amounts, created []quantity.NodeShape) quantity.Amounts {
	once := *t
	once.Ratios = nil
	whole := allocatable.Clone()
	for _, n := range created {
		whole = whole.Add(n.Free.Times(n.Count))
	}
	return once.Lendable(whole, own).Sub(once.Lendable(allocatable, own)).Max(nil)
}

// CreatableNodes returns how many nodes of each group can still be created, if existing nodes of each group
// exist. listed are the labels of the groups by which these were counted; counted is false if they are not
// those of the present groups.
func (t *Rules) CreatableNodes(listed []map[string]string, existing []int64) (creatable []int64, counted bool) {
	if !slices.EqualFunc(listed, t.GroupLabels(), maps.Equal) {
		return nil, false
	}
	creatable = make([]int64, len(t.Groups))
	for i := range t.Groups {
		creatable[i] = max(t.Groups[i].Nodes-existing[i], 0)
	}
	return creatable, true
}

// GroupLabels returns the labels of each group.
func (t *Rules) GroupLabels() (out []map[string]string) {
	for i := range t.Groups {
		out = append(out, t.Groups[i].Labels)
	}
	return out
}
