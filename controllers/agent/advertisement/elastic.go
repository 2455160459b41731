package advertisement

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// elasticOffer returns the nodes that this cluster can still create, and how much of them is lent; nil if
// it creates none, or does not know yet how many exist. Existing nodes and new ones are counted at the
// same moment, so each node is in exactly one of allocatable and the elastic offer, or in none while it is
// not Ready.
func elasticOffer(rules *offering.Rules, s *capacity.Snapshot, own quantity.Amounts) *brokerv1alpha1.ElasticOffer {
	creatable, counted := rules.CreatableNodes(s.Groups, s.NodesPerGroup)
	if len(creatable) == 0 || !counted {
		return nil
	}
	var nodes []quantity.NodeShape
	var within time.Duration
	for i, n := range creatable {
		g := &rules.Groups[i]
		if within = max(within, g.ReadyWithin); n > 0 {
			nodes = append(nodes, g.NewNodes(n))
		}
	}
	return wire.ToElasticOffer(rules.Extension(s.Allocatable, own, nodes), nodes, within)
}

// elasticDiffers reports whether other nodes can be created. How much of them is lent changes a little with
// every pod, and is published at the next interval.
func elasticDiffers(a, b *brokerv1alpha1.ElasticOffer) bool {
	if a == nil || b == nil {
		return a != b
	}
	return !equality.Semantic.DeepEqual(a.Nodes, b.Nodes) || a.ReadyWithin != b.ReadyWithin
}
