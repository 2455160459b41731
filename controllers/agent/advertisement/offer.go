package advertisement

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// materialShare is how large a part of what there is has to move before others
// are told outside the regular interval: one fiftieth, two percent.
const materialShare = 50

// identity is what an agent's flags and configuration say of its cluster, and its
// operator: in the Advertisement where those say nothing of labels and claims, and in the
// LendingPolicy.
type identity struct {
	ClusterID   string
	ClusterName string
	EndpointURL string
	Topology    *brokerv1alpha1.Topology
	Labels      map[string]brokerv1alpha1.LabelValue
	Claims      map[string]brokerv1alpha1.LabelValue
	// Lending is whom it lends to.
	Lending lending.Terms
}

// hold is an enforced ProviderInstruction.
type hold struct {
	reservation string
	placement   int32
	amounts     quantity.Amounts
	// recalled is until when it stays, nil where nobody wants it back.
	recalled *agentv1alpha1.RecalledPlacement
}

func (h hold) name() string { return placement.Name(h.reservation, h.placement) }

// offer is everything that this cluster has to say at one moment.
type offer struct {
	identity
	cost *brokerv1alpha1.Cost

	capacity    quantity.Amounts
	allocatable quantity.Amounts
	// own is what pods of the cluster's own request, and stretched how much may be
	// promised of what is allocatable, before anything is kept back.
	own, stretched quantity.Amounts
	advertised     offering.Advertised
	reserved       quantity.Amounts
	available      quantity.Amounts
	nodes          int
	shapes         []capacity.Shape
	roomiest       quantity.Amounts
	usage          []usage
	// pending is what own pods wait for, which nobody else is told.
	pending quantity.Amounts
}

// usage is a placement that capacity is kept for, and what runs in it.
type usage struct {
	hold
	used quantity.Amounts
}

// newOffer joins the accounts with the instructions that are enforced. Pods of a
// placement that nothing is kept for count as this cluster's own: somebody has to
// account for them.
func newOffer(id identity, terms *offering.Terms, cost *brokerv1alpha1.Cost, s *capacity.Snapshot, holds []hold) offer {
	amounts := make(map[string]quantity.Amounts, len(holds))
	uses := make([]usage, 0, len(holds))
	for _, h := range holds {
		amounts[h.name()] = h.amounts
		uses = append(uses, usage{hold: h, used: s.Used[h.name()]})
	}
	slices.SortFunc(uses, func(a, b usage) int {
		return cmp.Or(cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.placement, b.placement))
	})
	reserved, stray := s.Held(amounts)
	own := s.Allocated.Add(stray)
	advertised := terms.Advertise(s.Allocatable, own, reserved)
	// What may be promised beyond what there is is the broker's to say.
	available := s.Allocatable.Sub(advertised.Allocated).Sub(reserved).Max(nil)
	for name := range available {
		if _, offered := s.Allocatable[name]; !offered {
			delete(available, name)
		}
	}
	return offer{
		identity: id, cost: cost,
		capacity: s.Capacity, allocatable: s.Allocatable, own: own, stretched: s.Allocatable.Stretched(terms.Ratios),
		advertised: advertised, reserved: reserved, available: available,
		nodes: s.Nodes, shapes: s.NodeShapes, roomiest: roomiest(s.NodeShapes), usage: uses, pending: foremost(s.Pending, s.Capacity),
	}
}

// spec writes the offer as an Advertisement.
func (o *offer) spec() agentv1alpha1.AdvertisementSpec {
	shapes := make([]brokerv1alpha1.NodeShape, len(o.shapes))
	for i, s := range o.shapes {
		shapes[i] = brokerv1alpha1.NodeShape{Count: s.Count, Free: s.Free.ToResourceList(), NodeLabels: wire.ToLabels(s.Labels)}
	}
	return agentv1alpha1.AdvertisementSpec{
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
		NodeShapes:       shapes,
		Cost:             o.cost,
		Labels:           o.Labels,
		Claims:           o.Claims,
	}
}

func (o *offer) wireUsage(now time.Time) []v1.Usage {
	out := make([]v1.Usage, len(o.usage))
	for i, u := range o.usage {
		used := u.used
		if used == nil {
			used = quantity.Amounts{}
		}
		out[i] = v1.Usage{Reservation: u.reservation, Placement: u.placement, Used: wire.FromAmounts(used), Recall: u.recall(now)}
	}
	return out
}

// recall crosses as the time that is left: the broker goes by a clock of its own.
func (h hold) recall(now time.Time) *v1.Recall {
	if h.recalled == nil {
		return nil
	}
	return &v1.Recall{RemainingSeconds: max(h.recalled.EndsAt.Sub(now), 0).Seconds(), Message: h.recalled.Message}
}

// material reports whether o differs so much from before that others should
// hear of it now.
func (o *offer) material(before *offer) bool {
	switch {
	case before == nil:
		return true
	case o.nodes != before.nodes:
		return true
	case !equality.Semantic.DeepEqual(o.identity, before.identity), !equality.Semantic.DeepEqual(o.cost, before.cost):
		return true
	case !slices.EqualFunc(o.usage, before.usage, usage.equal), !o.reserved.Equal(before.reserved):
		return true
	}
	return moved(before.capacity, o.capacity, before.capacity) ||
		moved(before.allocatable, o.allocatable, before.allocatable) ||
		moved(before.advertised.Allocated, o.advertised.Allocated, before.allocatable) ||
		moved(before.promised(), o.promised(), before.allocatable) ||
		moved(before.roomiest, o.roomiest, before.roomiest)
}

// promised is allocatable as many times as a broker is told.
func (o *offer) promised() quantity.Amounts { return o.allocatable.Stretched(o.advertised.Ratios) }

func (u usage) equal(v usage) bool {
	return u.reservation == v.reservation && u.placement == v.placement &&
		u.amounts.Equal(v.amounts) && u.used.Equal(v.used) && equality.Semantic.DeepEqual(u.recalled, v.recalled)
}

// moved reports whether any amount changed by more than the material share of
// the whole.
func moved(from, to, whole quantity.Amounts) bool {
	for name, delta := range to.Sub(from) {
		if delta != 0 && max(delta, -delta) > whole[name]/materialShare {
			return true
		}
	}
	return false
}

// roomiest is the most of each resource that is free on one node: it bounds the
// largest pod that fits.
func roomiest(shapes []capacity.Shape) quantity.Amounts {
	out := quantity.Amounts{}
	for _, s := range shapes {
		for name, free := range s.Free {
			// A count of places for pods moves with every pod and limits nobody.
			if name != corev1.ResourcePods {
				out[name] = max(out[name], free)
			}
		}
	}
	return out
}
