package advertisement

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// materialShare defines a material change, which is published at once instead of at the next
// interval: an amount changes by more than 1/50 (2 %) of the total.
const materialShare = 50

// identity is how the cluster describes itself, according to the agent's flags and configuration
// file. Labels and claims that neither of them sets are taken from the Advertisement object.
type identity struct {
	ClusterID   string
	ClusterName string
	EndpointURL string
	Topology    *brokerv1alpha1.Topology
	Labels      map[string]brokerv1alpha1.LabelValue
	Claims      map[string]brokerv1alpha1.LabelValue
	// Lending holds the rules of the LendingPolicy about which consumers this cluster lends to.
	Lending lending.Policy
}

// hold is the reserved capacity of one placement, according to a ProviderInstruction with
// status.enforced.
type hold struct {
	reservation string
	placement   int32
	amounts     quantity.Amounts
	// recalled is the operator's recall of the placement and its deadline; nil if there is none.
	recalled *agentv1alpha1.RecalledPlacement
	// awaitsNodes is true if the capacity does not exist yet.
	awaitsNodes bool
}

func (h hold) placementName() string { return brokerv1alpha1.PlacementName(h.reservation, h.placement) }

// offer is everything that this cluster publishes at one moment.
type offer struct {
	identity
	cost *brokerv1alpha1.Cost

	capacity    quantity.Amounts
	allocatable quantity.Amounts
	// own is the sum of the requests of the cluster's own pods. stretched is allocatable multiplied
	// by the over-subscription ratios, without subtracting the reserve that the operator withholds.
	own, stretched quantity.Amounts
	advertised     offering.Advertised
	reserved       quantity.Amounts
	available      quantity.Amounts
	nodes          int
	shapes         []quantity.NodeShape
	roomiest       quantity.Amounts
	usage          []usage
	// elastic are the nodes that this cluster can still create; nil if it creates none.
	elastic *brokerv1alpha1.ElasticOffer
	// pending is the sum of the requests of the cluster's own unschedulable pods. pendingSince is
	// when the pod that has waited longest began to wait; zero if there is none.
	pending      quantity.Amounts
	pendingSince time.Time
}

// usage is the reserved capacity of a placement and the sum of the requests of its pods.
type usage struct {
	hold
	used quantity.Amounts
}

// newOffer computes the offer. The pods of a placement without reserved capacity count as this cluster's own, so
// that the offer does not miss them.
func newOffer(id identity, rules *offering.Rules, cost *brokerv1alpha1.Cost, s *capacity.Snapshot, holds []hold) offer {
	amounts := make(map[string]quantity.Amounts, len(holds))
	uses := make([]usage, 0, len(holds))
	for _, h := range holds {
		amounts[h.placementName()] = h.amounts
		uses = append(uses, usage{hold: h, used: s.Used[h.placementName()]})
	}
	slices.SortFunc(uses, func(a, b usage) int {
		return cmp.Or(cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.placement, b.placement))
	})
	reserved, stray := s.Held(amounts)
	own := s.Allocated.Add(stray)
	advertised := rules.Advertise(s.Allocatable, own, reserved)
	// The broker alone decides about over-subscription, so available is computed without it.
	available := s.Allocatable.Sub(advertised.Allocated).Sub(reserved).Max(nil)
	for name := range available {
		if _, offered := s.Allocatable[name]; !offered {
			delete(available, name)
		}
	}
	return offer{
		elastic: elasticOffer(rules, s, own), identity: id, cost: cost,
		capacity: s.Capacity, allocatable: s.Allocatable, own: own, stretched: s.Allocatable.Stretched(rules.Ratios),
		advertised: advertised, reserved: reserved, available: available,
		nodes: s.Nodes, shapes: s.NodeShapes, roomiest: largestFree(s.NodeShapes), usage: uses, pending: firstPending(s.Pending, s.Capacity), pendingSince: s.PendingSince,
	}
}

func (o *offer) advertisementSpec() agentv1alpha1.AdvertisementSpec {
	spec := agentv1alpha1.AdvertisementSpec{
		ClusterID:   o.ClusterID,
		ClusterName: o.ClusterName,
		EndpointURL: o.EndpointURL,
		Topology:    o.Topology,
		Resources: brokerv1alpha1.ResourceMetrics{
			Capacity:    o.capacity.ToResourceList(),
			Allocatable: o.allocatable.ToResourceList(),
			Allocated:   o.advertised.Allocated.ToResourceList(),
			Reserved:    o.reserved.ToResourceList(),
			Available:   o.available.ToResourceList(),
		},
		Withheld:         o.advertised.Withheld.ToResourceList(),
		Pending:          o.pending.ToResourceList(),
		OverSubscription: wire.ToOverSubscription(o.advertised.Ratios),
		NodeShapes:       wire.ToNodeShapes(o.shapes),
		Elastic:          o.elastic,
		Cost:             o.cost,
		Labels:           o.Labels,
		Claims:           o.Claims,
	}
	if !o.pendingSince.IsZero() {
		spec.PendingSince = &metav1.Time{Time: o.pendingSince}
	}
	return spec
}

func (o *offer) wireUsage(now time.Time) []v1.Usage {
	out := make([]v1.Usage, len(o.usage))
	for i, u := range o.usage {
		used := u.used
		if used == nil {
			used = quantity.Amounts{}
		}
		out[i] = v1.Usage{Reservation: u.reservation, Placement: u.placement, Used: wire.FromAmounts(used), Recall: u.remainingRecall(now)}
	}
	return out
}

// exceedsHold returns a function that reports whether a placement uses more than is reserved for it.
func (o *offer) exceedsHold() func(*v1.Usage) bool {
	beyond := map[string]bool{}
	for _, u := range o.usage {
		beyond[u.placementName()] = !u.used.Sub(u.amounts).Max(nil).IsZero()
	}
	return func(u *v1.Usage) bool { return beyond[brokerv1alpha1.PlacementName(u.Reservation, u.Placement)] }
}

// remainingRecall contains no deadline, because the broker's clock may differ.
func (h hold) remainingRecall(now time.Time) *v1.Recall {
	if h.recalled == nil {
		return nil
	}
	return &v1.Recall{RemainingSeconds: max(h.recalled.EndsAt.Sub(now), 0).Seconds(), Message: h.recalled.Message}
}

// differsMaterially reports whether o must be published at once instead of at the next interval.
func (o *offer) differsMaterially(before *offer) bool {
	switch {
	case before == nil:
		return true
	case o.nodes != before.nodes, elasticDiffers(before.elastic, o.elastic):
		return true
	case !equality.Semantic.DeepEqual(o.identity, before.identity), !equality.Semantic.DeepEqual(o.cost, before.cost):
		return true
	case !slices.EqualFunc(o.usage, before.usage, usage.equal), !o.reserved.Equal(before.reserved):
		return true
	}
	return hasMoved(before.capacity, o.capacity, before.capacity) ||
		hasMoved(before.allocatable, o.allocatable, before.allocatable) ||
		hasMoved(before.advertised.Allocated, o.advertised.Allocated, before.allocatable) ||
		hasMoved(before.promisedAmounts(), o.promisedAmounts(), before.allocatable) ||
		hasMoved(before.roomiest, o.roomiest, before.roomiest)
}

// promisedAmounts are the allocatable amounts multiplied by the ratios that the broker receives.
func (o *offer) promisedAmounts() quantity.Amounts {
	return o.allocatable.Stretched(o.advertised.Ratios)
}

func (u usage) equal(v usage) bool {
	return u.reservation == v.reservation && u.placement == v.placement &&
		u.amounts.Equal(v.amounts) && u.used.Equal(v.used) && equality.Semantic.DeepEqual(u.recalled, v.recalled)
}

func hasMoved(from, to, whole quantity.Amounts) bool {
	for name, delta := range to.Sub(from) {
		if delta != 0 && max(delta, -delta) > whole[name]/materialShare {
			return true
		}
	}
	return false
}

// largestFree returns, for each resource, the largest amount that is free on a single node. A pod
// that requests more cannot run here.
func largestFree(shapes []quantity.NodeShape) quantity.Amounts {
	out := quantity.Amounts{}
	for _, s := range shapes {
		for name, free := range s.Free {
			// The number of free pod slots changes with every pod, and rarely limits a placement.
			if name != corev1.ResourcePods {
				out[name] = max(out[name], free)
			}
		}
	}
	return out
}
