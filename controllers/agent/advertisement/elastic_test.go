package advertisement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

func TestElasticOffer(t *testing.T) {
	groups := []offering.NodeGroup{
		{Name: "small", Nodes: 3, Each: quantity.Amounts{"cpu": 4000}, Labels: map[string]string{"pool": "small"}, ReadyWithin: time.Minute},
		{Name: "large", Nodes: 2, Each: quantity.Amounts{"cpu": 8000, "nvidia.com/gpu": 1}, Labels: map[string]string{"pool": "large"}, ReadyWithin: 8 * time.Minute},
	}
	small := func(n int64) quantity.NodeShape { return groups[0].NewNodes(n) }
	large := func(n int64) quantity.NodeShape { return groups[1].NewNodes(n) }
	for name, tc := range map[string]struct {
		rules    offering.Rules
		existing []int64
		lent     quantity.Amounts
		nodes    []quantity.NodeShape
	}{
		"all of them":                     {existing: []int64{0, 0}, lent: quantity.Amounts{"cpu": 28000, "nvidia.com/gpu": 2}, nodes: []quantity.NodeShape{small(3), large(2)}},
		"those that do not exist":         {existing: []int64{3, 1}, lent: quantity.Amounts{"cpu": 8000, "nvidia.com/gpu": 1}, nodes: []quantity.NodeShape{large(1)}},
		"none of more than the group has": {existing: []int64{4, 2}, lent: quantity.Amounts{"cpu": 0}},
		"a share":                         {rules: offering.Rules{Withheld: offering.Percentages{All: 50}}, existing: []int64{3, 1}, lent: quantity.Amounts{"cpu": 4000, "nvidia.com/gpu": 0}, nodes: []quantity.NodeShape{large(1)}},
		"up to a cap":                     {rules: offering.Rules{Cap: quantity.Amounts{"cpu": 12000}}, existing: []int64{3, 1}, lent: quantity.Amounts{"cpu": 2000, "nvidia.com/gpu": 1}, nodes: []quantity.NodeShape{large(1)}},
		"without over-subscription":       {rules: offering.Rules{Ratios: quantity.Ratios{"cpu": 300}}, existing: []int64{3, 1}, lent: quantity.Amounts{"cpu": 8000, "nvidia.com/gpu": 1}, nodes: []quantity.NodeShape{large(1)}},
		"unknown before they are counted": {},
	} {
		t.Run(name, func(t *testing.T) {
			tc.rules.Groups = groups
			listed := tc.rules.GroupLabels()
			if tc.existing == nil {
				listed = nil
			}
			got := elasticOffer(&tc.rules, &capacity.Snapshot{Allocatable: quantity.Amounts{"cpu": 10000}, Groups: listed, NodesPerGroup: tc.existing}, nil)
			if tc.existing == nil {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if diff := cmp.Diff(wire.ToElasticOffer(tc.lent, tc.nodes, 8*time.Minute), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if elasticOffer(&offering.Rules{}, &capacity.Snapshot{}, nil) != nil {
		t.Error("a cluster without groups offers new nodes")
	}
}

// Capacity of nodes that are being created is reserved, but not missing.
func TestCapacityOfNewNodesIsNotMissing(t *testing.T) {
	coming := hold{reservation: "res-a", placement: 1, amounts: quantity.Amounts{"cpu": 4000}, awaitsNodes: true}
	o := newOffer(identity{}, &offering.Rules{}, nil, &capacity.Snapshot{Allocatable: quantity.Amounts{"cpu": 1000}}, []hold{coming})
	if missing := o.missingAmounts(); len(missing) > 0 || o.reserved["cpu"] != 4000 {
		t.Errorf("missing %v, reserved %v", missing, o.reserved)
	}
}
