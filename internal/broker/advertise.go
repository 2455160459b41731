package broker

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/mutant"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// PublishAdvertisement implements the server's Broker. One that is older than what
// was heard before is answered and changes nothing.
func (b *Broker) PublishAdvertisement(ctx context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if adv.ClusterID != clusterID {
		return nil, fault.New(fault.Forbidden, "the certificate is that of cluster %q: it cannot advertise %q", clusterID, adv.ClusterID)
	}
	offer, err := offerOf(adv)
	if err != nil {
		return nil, fault.New(fault.Invalid, "advertisement of %q: %v", clusterID, err)
	}
	var receipt *v1.AdvertisementReceipt
	err = b.changeOf(ctx, clusterID, func(t *term) error {
		overtaken := t.presenceOf(clusterID).overtaken(adv.Epoch, adv.Sequence)
		if err := t.hear(offer, adv.Epoch, adv.Sequence); err != nil {
			return err
		}
		if !overtaken {
			t.takeLinks(clusterID, adv.Links)
			if err := t.noteRecalls(clusterID, adv.Usage); err != nil {
				return faultOf(err)
			}
		}
		if mutant.Active == mutant.AgentClock {
			t.presenceOf(clusterID).heard = adv.Timestamp
			t.judge(clusterID)
		}
		t.suspectUsage(clusterID, adv.Usage)
		t.meet(clusterID)
		c := t.state.Cluster(clusterID)
		receipt = &v1.AdvertisementReceipt{
			NextSeconds: int32(advertiseEvery.Seconds()),
			Reserved:    wire.FromAmounts(c.Claimed()),
			Available:   wire.FromAmounts(c.Available()),
			Peers:       t.peersOf(clusterID),
			LeftOut:     t.leftOut(clusterID),
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerAdvertised)
	return receipt, nil
}

// hear takes an agent's offer: at once into the ledger if it differs materially,
// else it waits until somebody wants to reserve there.
func (t *term) hear(offer *ledger.Offer, epoch, sequence int64) error {
	p := t.presenceOf(offer.ClusterID)
	if p.overtaken(epoch, sequence) {
		return nil
	}
	known := t.state.Cluster(offer.ClusterID)
	if known != nil && known.Agent {
		if what := leap(&known.Offer, offer, t.now().Sub(p.heard)); what != "" {
			p.leap, p.leapt = what, t.now()
		}
	}
	if known == nil || !known.Agent || material(&known.Offer, offer) || t.isAwaited(offer) {
		if err := t.recordOffer(offer); err != nil {
			return faultOf(err)
		}
		p.pending = nil
	} else {
		p.pending = beside(&known.Offer, offer)
	}
	p.epoch, p.sequence, p.heard = epoch, sequence, t.now()
	t.judge(offer.ClusterID)
	return t.noteReturn(offer.ClusterID)
}

// overtaken is an advertisement that is older than what was heard.
func (p *presence) overtaken(epoch, sequence int64) bool {
	return (epoch < p.epoch || epoch == p.epoch && sequence <= p.sequence) && mutant.Active != mutant.OldAdvertisement
}

// materialShare is which change of a resource, as one part of so many of what is
// allocatable, is worth a record.
const materialShare = 50

// material says whether an offer differs so much from the recorded one that
// decisions should know.
func material(old, new *ledger.Offer) bool {
	a, b := *old, *new
	a.Allocated, b.Allocated, a.Used, b.Used = nil, nil, nil, nil
	a.UsedApart, b.UsedApart = false, false
	// Shapes move with every pod; they are taken when somebody reserves.
	a.Shapes, b.Shapes = nil, nil
	if !reflect.DeepEqual(a, b) {
		return true
	}
	if differs(old.Allocated, new.Allocated, new.Allocatable) {
		return true
	}
	if len(old.Used) != len(new.Used) {
		return true
	}
	for name := range maps.Keys(new.Used) {
		before, ok := old.Used[name]
		if !ok || differs(before, new.Used[name], new.Allocatable) {
			return true
		}
	}
	return false
}

// beside is an offer that does not differ materially from one that is kept anyhow: what
// both have is kept once.
func beside(known, offer *ledger.Offer) *ledger.Offer {
	out := *known
	out.Allocated, out.Used, out.Shapes = offer.Allocated, offer.Used, offer.Shapes
	if reflect.DeepEqual(known.Shapes, offer.Shapes) {
		out.Shapes = known.Shapes
	}
	return &out
}

func differs(a, b, whole quantity.Amounts) bool {
	for name, delta := range a.Sub(b) {
		if max(delta, -delta) > whole[name]/materialShare {
			return true
		}
	}
	return false
}

func offerOf(adv *v1.Advertisement) (*ledger.Offer, error) {
	offer := &ledger.Offer{
		ClusterID: adv.ClusterID, ClusterName: adv.ClusterName, Endpoint: adv.EndpointURL,
		Region: adv.Topology.Region, Zone: adv.Topology.Zone, Agent: true,
		Labels: adv.Labels, Claims: adv.Claims, Lending: wire.ToLending(adv.Lending).OrNil(),
	}
	var err error
	if offer.Capacity, err = wire.ToAmounts(adv.Capacity); err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	if offer.Allocatable, err = wire.ToAmounts(adv.Allocatable); err != nil {
		return nil, fmt.Errorf("allocatable: %w", err)
	}
	if offer.Allocated, err = wire.ToAmounts(adv.Allocated); err != nil {
		return nil, fmt.Errorf("allocated: %w", err)
	}
	if offer.OverSubscription, err = quantity.ParseRatios(adv.OverSubscription); err != nil {
		return nil, fmt.Errorf("overSubscription: %w", err)
	}
	for _, u := range adv.Usage {
		used, err := wire.ToAmounts(u.Used)
		if err != nil {
			return nil, fmt.Errorf("usage of %s-%d: %w", u.Reservation, u.Placement, err)
		}
		if offer.Used == nil {
			offer.Used = map[string]quantity.Amounts{}
		}
		offer.Used[ledger.PlacementName(u.Reservation, u.Placement)] = used
	}
	for _, s := range adv.NodeShapes {
		free, err := wire.ToAmounts(s.Free)
		if err != nil {
			return nil, fmt.Errorf("node shape: %w", err)
		}
		offer.Shapes = append(offer.Shapes, ledger.Shape{Count: s.Count, Free: free, Labels: s.NodeLabels})
	}
	if !reflect.DeepEqual(adv.Cost, v1.Cost{}) {
		offer.Cost = &ledger.Cost{
			CPU: adv.Cost.CpuCost, Memory: adv.Cost.MemoryCost, Resources: adv.Cost.ResourceCosts,
			Storage: adv.Cost.StorageCost, Egress: adv.Cost.EgressCost, Currency: adv.Cost.Currency,
		}
	}
	return offer, CheckOffer(offer)
}

// CheckOffer refuses what no cluster can mean.
func CheckOffer(o *ledger.Offer) error {
	if o.Capacity.IsZero() && !o.Allocatable.IsZero() {
		return fmt.Errorf("allocatable is given but capacity is empty")
	}
	for _, name := range o.Allocatable.Names() {
		if o.Allocatable[name] > o.Capacity[name] {
			return fmt.Errorf("allocatable %s %s is more than the capacity %s", name,
				quantity.Format(name, o.Allocatable[name]), quantity.Format(name, o.Capacity[name]))
		}
	}
	if err := checkWords(o); err != nil {
		return err
	}
	if err := checkLending(o.Lending); err != nil {
		return err
	}
	return checkCost(o.Cost)
}

// checkWords refuses labels and claims that no request could ask for.
func checkWords(o *ledger.Offer) error {
	if err := terms.CheckLabels("labels", o.Labels, maxWords); err != nil {
		return err
	}
	for _, s := range o.Shapes {
		if err := terms.CheckLabels("labels of nodes", s.Labels, maxNodeLabels); err != nil {
			return err
		}
	}
	return terms.CheckClaims("claims", o.Claims, maxWords)
}

// maxNamed is how many clusters an offer may allow, and how many it may deny.
const maxNamed = 512

func checkLending(l *lending.Terms) error {
	if l == nil || max(len(l.Allow), len(l.Deny)) <= maxNamed {
		return nil
	}
	return fmt.Errorf("lending: %d clusters are allowed and %d denied: name at most %d of each", len(l.Allow), len(l.Deny), maxNamed)
}

const (
	// maxWords is how many labels, and how many claims, a cluster may have.
	maxWords = 64
	// maxNodeLabels is how many labels nodes of one shape may show.
	maxNodeLabels = 16
)

func checkCost(c *ledger.Cost) error {
	if c == nil {
		return nil
	}
	prices := pricesOf(c)
	prices["storage for data"], prices["egress"] = c.Storage, c.Egress
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if text := prices[name]; text != "" {
			if _, err := decision.ParsePrice(text); err != nil {
				return fmt.Errorf("price of %s: %w", name, err)
			}
		}
	}
	if c.Currency != "" && !decision.IsCurrency(c.Currency) {
		return fmt.Errorf("currency %q is not an ISO 4217 code such as EUR", message.Clip(c.Currency, 10))
	}
	return nil
}

// OfferManifest takes what somebody wrote by hand for a cluster. It counts as
// heard now if it is new or was changed. Where an agent speaks for the cluster the
// manifest changes nothing.
//
// It returns fault.Conflict if another manifest speaks for the cluster already,
// and fault.Invalid if the figures cannot be meant.
func (b *Broker) OfferManifest(ctx context.Context, offer *ledger.Offer) error {
	if err := CheckOffer(offer); err != nil {
		return fault.New(fault.Invalid, "%v", err)
	}
	return b.change(ctx, func(t *term) error {
		known := t.state.Cluster(offer.ClusterID)
		switch {
		case known == nil || known.Source == nil && !known.Agent:
		case known.Agent:
			return nil
		case known.Source.UID != offer.Source.UID:
			return fault.New(fault.Conflict, "cluster %q is described by ClusterAdvertisement %s/%s already: delete one of them",
				offer.ClusterID, known.Source.Namespace, known.Source.Name)
		case known.Source.Digest == offer.Source.Digest:
			return nil
		}
		if err := t.renounce(offer); err != nil {
			return err
		}
		t.presenceOf(offer.ClusterID).heard = t.now()
		return t.record(ledger.Event{Offer: offer})
	})
}

// renounce withdraws what the object of an offer said of another cluster before it was
// deleted and made anew.
func (t *term) renounce(offer *ledger.Offer) error {
	other := t.state.ByManifest(offer.Source.Namespace, offer.Source.Name)
	if other == nil || other.Agent || other.ClusterID == offer.ClusterID {
		return nil
	}
	return t.record(ledger.Event{Offer: &ledger.Offer{ClusterID: other.ClusterID}})
}

// WithdrawManifest takes back what a deleted manifest offered. What is reserved
// there stays held.
func (b *Broker) WithdrawManifest(ctx context.Context, clusterID, uid string) error {
	return b.change(ctx, func(t *term) error {
		known := t.state.Cluster(clusterID)
		if known == nil || known.Agent || known.Source == nil || known.Source.UID != uid {
			return nil
		}
		return t.record(ledger.Event{Offer: &ledger.Offer{ClusterID: clusterID}})
	})
}

// ClusterOfManifest returns the cluster that a manifest speaks for, "" if none.
func (b *Broker) ClusterOfManifest(ctx context.Context, namespace, name string) (clusterID, uid string, err error) {
	err = b.change(ctx, func(t *term) error {
		if c := t.state.ByManifest(namespace, name); c != nil {
			clusterID, uid = c.ClusterID, c.Source.UID
		}
		return nil
	})
	return clusterID, uid, err
}
