package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// PublishAdvertisement implements the server's Broker. It answers a repetition of the last
// advertisement without storing it again, and refuses an older advertisement with fault.Conflict.
func (b *Broker) PublishAdvertisement(ctx context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if adv.ClusterID != clusterID {
		return nil, fault.New(fault.Forbidden, "the certificate is that of cluster %q: it cannot advertise %q", clusterID, adv.ClusterID)
	}
	offer, err := offerOf(adv)
	if err != nil {
		b.meter.CountAdvertisement(metrics.Refused)
		return nil, fault.New(fault.Invalid, "advertisement of %q: %v", clusterID, err)
	}
	var receipt *v1.AdvertisementReceipt
	demand, err := demandOf(adv, b.opts.Now())
	if err != nil {
		b.meter.CountAdvertisement(metrics.Refused)
		return nil, fault.New(fault.Invalid, "advertisement of %q: %v", clusterID, err)
	}
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		epoch, repeated, err := s.clusters.presenceOf(clusterID).orderAdvertisement(clusterID, adv)
		if err != nil {
			b.meter.CountAdvertisement(metrics.Overtaken)
			return err
		}
		if repeated {
			b.meter.CountAdvertisement(metrics.Repeated)
		} else {
			sumUnheld(offer.Used, s.book.Cluster(clusterID))
			if err := s.clusters.acceptOffer(offer, epoch, adv.Sequence); err != nil {
				b.meter.CountAdvertisement(metrics.Refused)
				return err
			}
			s.clusters.storePending(clusterID, demand)
			s.links.storeReport(clusterID, adv.Links)
			s.idles.noteReports(clusterID, offer.Used, adv.Vacant)
			if err := s.reservations.noteRecalls(clusterID, adv.Usage); err != nil {
				return faultOf(err)
			}
		}
		s.recovery.checkUsage(clusterID, adv.Usage)
		s.recovery.markSeen(clusterID)
		c := s.book.Cluster(clusterID)
		receipt = &v1.AdvertisementReceipt{
			Epoch:       epoch,
			NextSeconds: int32(s.config().Timeouts.advertiseEvery().Seconds()),
			Reserved:    wire.FromAmounts(c.Claimed()),
			Available:   wire.FromAmounts(c.Available()),
			Peers:       s.links.peersToProbe(clusterID),
			LeftOut:     s.clusters.ignoredResources(clusterID),

			ReportVacant: s.idles.wantsVacancies(clusterID),
			Anchor:       s.anchor(),
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerAdvertised)
	return receipt, nil
}

// anchor returns the newest stored position of the journal with its hash. Members remember it.
func (s *session) anchor() v1.Anchor {
	a := s.journal.Anchor()
	return v1.Anchor{Journal: a.Journal, Position: int64(a.Position), Hash: a.Hash}
}

// acceptOffer stores an agent's offer. It records the offer at once if it is the agent's first one,
// differs materially from the recorded one, or may let a waiting request fit. Otherwise the offer stays
// pending until a decision depends on it.
func (cs *clusters) acceptOffer(offer *ledger.Offer, epoch, sequence int64) error {
	p := cs.presenceOf(offer.ClusterID)
	known := cs.s.book.Cluster(offer.ClusterID)
	if known != nil && known.Agent {
		if what := describeLeap(&known.Offer, offer, cs.s.now().Sub(p.heard)); what != "" {
			p.leap, p.leapt = what, cs.s.now()
		}
	}
	if known == nil || !known.Agent || differsMaterially(&known.Offer, offer) || cs.s.queue.awaitsOffer(offer) {
		if err := cs.recordOffer(offer); err != nil {
			return faultOf(err)
		}
		p.pending = nil
		cs.s.metering.CountAdvertisement(metrics.Material)
	} else {
		p.pending = shareEqualParts(&known.Offer, offer)
		if reflect.DeepEqual(p.pending, &known.Offer) {
			p.pending = nil
		}
		cs.s.metering.CountAdvertisement(metrics.Unchanged)
	}
	p.epoch, p.sequence, p.heard = epoch, sequence, cs.s.now()
	cs.updateFreshness(offer.ClusterID)
	return cs.noteReturn(offer.ClusterID)
}

// recordPending records the pending offer of a cluster, and reports whether it did. It returns false
// if there is none, or if the ledger refuses it.
func (cs *clusters) recordPending(clusterID string) (bool, error) {
	p := cs.presenceOf(clusterID)
	if p.pending == nil {
		return false, nil
	}
	offer := p.pending
	p.pending = nil
	err := cs.recordOffer(offer)
	if errors.Is(err, ledger.ErrMalformed) || fault.ReasonOf(err) == fault.TooLarge {
		// The ledger will always refuse this offer. The recorded one stays in force.
		return false, nil
	}
	return true, err
}

// recordAllPending records all pending offers, and reports whether it recorded any. It is called
// before a request is refused, because a pending offer may have just enough room.
func (cs *clusters) recordAllPending() (bool, error) {
	found := false
	for _, id := range slices.Sorted(maps.Keys(cs.byID)) {
		refreshed, err := cs.recordPending(id)
		if err != nil {
			return false, err
		}
		found = found || refreshed
	}
	return found, nil
}

// orderAdvertisement returns the epoch of an advertisement, and whether the advertisement repeats
// the last one. An agent without an epoch gets a new one. An advertisement that is older than the
// last one is refused with fault.Conflict. After a restart, the broker accepts the epochs that
// agents already have.
func (p *presence) orderAdvertisement(clusterID string, adv *v1.Advertisement) (epoch int64, repeated bool, err error) {
	switch {
	case adv.Epoch == 0:
		return p.epoch + 1, false, nil
	case adv.Epoch < p.epoch:
		return 0, false, fault.New(fault.Conflict, "another agent has advertised cluster %q since epoch %d began: epoch %d is in force; ask for a new epoch with epoch 0",
			clusterID, adv.Epoch, p.epoch)
	case adv.Epoch == p.epoch && adv.Sequence < p.sequence:
		return 0, false, fault.New(fault.Conflict, "advertisement %d of cluster %q is older than advertisement %d: send a higher sequence", adv.Sequence, clusterID, p.sequence)
	}
	return adv.Epoch, adv.Epoch == p.epoch && adv.Sequence == p.sequence, nil
}

// materialShare limits how much may change in an offer that is not recorded at once: at most
// 1/materialShare of the allocatable amount of a resource.
const materialShare = 50

// differsMaterially reports whether an offer differs so much from the recorded one that decisions
// should use it at once.
func differsMaterially(old, new *ledger.Offer) bool {
	a, b := *old, *new
	a.Allocated, b.Allocated, a.Used, b.Used = nil, nil, nil, nil
	a.UsedApart, b.UsedApart = false, false
	// Shapes change with every pod. They are recorded when a decision depends on the offer.
	a.Shapes, b.Shapes = nil, nil
	if !reflect.DeepEqual(a, b) {
		return true
	}
	if differsFrom(old.Allocated, new.Allocated, new.Allocatable) {
		return true
	}
	if len(old.Used) != len(new.Used) {
		return true
	}
	for name := range maps.Keys(new.Used) {
		before, ok := old.Used[name]
		if !ok || differsFrom(before, new.Used[name], new.Allocatable) {
			return true
		}
	}
	return false
}

// shareEqualParts returns a copy of a pending offer that shares equal parts with the recorded one,
// to save memory.
func shareEqualParts(known, offer *ledger.Offer) *ledger.Offer {
	out := *known
	out.Allocated, out.Used, out.Shapes = offer.Allocated, offer.Used, offer.Shapes
	if reflect.DeepEqual(known.Shapes, offer.Shapes) {
		out.Shapes = known.Shapes
	}
	return &out
}

func differsFrom(a, b, whole quantity.Amounts) bool {
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
		offer.Used[brokerv1alpha1.PlacementName(u.Reservation, u.Placement)] = used
	}
	for _, s := range adv.NodeShapes {
		free, err := wire.ToAmounts(s.Free)
		if err != nil {
			return nil, fmt.Errorf("node shape: %w", err)
		}
		offer.Shapes = append(offer.Shapes, quantity.NodeShape{Count: int64(s.Count), Free: free, Labels: s.NodeLabels, Taints: s.Taints})
	}
	if !reflect.DeepEqual(adv.Cost, v1.Cost{}) {
		offer.Cost = &adv.Cost
	}
	return offer, CheckOffer(offer)
}

// CheckOffer returns an error for an offer with impossible or excessive values.
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
	if err := checkAddress(o.Endpoint); err != nil {
		return err
	}
	if err := checkWords(o); err != nil {
		return err
	}
	if err := checkLending(o.Lending); err != nil {
		return err
	}
	return checkCost(o.Cost)
}

// checkWords returns an error for labels, taints and claims that no request could name, or if there
// are too many.
func checkWords(o *ledger.Offer) error {
	if err := requirements.CheckLabels("labels", o.Labels, maxWords); err != nil {
		return err
	}
	for _, s := range o.Shapes {
		if err := requirements.CheckLabels("labels of nodes", s.Labels, maxNodeLabels); err != nil {
			return err
		}
		if err := requirements.CheckTaints("taints of nodes", s.Taints); err != nil {
			return err
		}
	}
	return requirements.CheckClaims("claims", o.Claims, maxWords)
}

// maxNamed is how many clusters a cluster's lending policy may allow, and how many it may deny.
const maxNamed = 512

func checkLending(l *lending.Policy) error {
	if l == nil || max(len(l.Allow), len(l.Deny)) <= maxNamed {
		return nil
	}
	return fmt.Errorf("lending: %d clusters are allowed and %d denied: name at most %d of each", len(l.Allow), len(l.Deny), maxNamed)
}

const (
	// maxWords is how many labels a cluster may have, and how many claims.
	maxWords = 64
	// maxNodeLabels is how many labels nodes of one shape may have.
	maxNodeLabels = 16
)

// The schema of ClusterAdvertisement has the same limits for addresses and prices, and for the
// number of prices (maxPrices).
var (
	objectPrice   = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,9})?$`)
	objectAddress = regexp.MustCompile(`^https://[^@[:space:]]+$`)
)

const maxPrices = 32

// checkAddress checks the address of an API server, which may be empty. Any other address must begin
// with https:// and must not contain a user name or password.
func checkAddress(endpoint string) error {
	if endpoint == "" || objectAddress.MatchString(endpoint) {
		return nil
	}
	return fmt.Errorf("endpointURL %q: give an https:// address without user name or password", message.Clip(endpoint, 100))
}

func checkCost(c *brokerv1alpha1.Cost) error {
	if c == nil {
		return nil
	}
	prices := money.PricesOf(c)
	prices["storage for data"], prices["egress"] = brokerv1alpha1.Price(c.StorageCost), brokerv1alpha1.Price(c.EgressCost)
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if text := prices[name]; text != "" {
			if _, err := money.ParsePrice(string(text)); err != nil {
				return fmt.Errorf("price of %s: %w", name, err)
			}
			if !objectPrice.MatchString(string(text)) {
				return fmt.Errorf("price of %s: %q: write at most nine digits before and, after a point, one to nine digits, for example 0.05", name, text)
			}
		}
	}
	if len(c.ResourceCosts) > maxPrices {
		return fmt.Errorf("prices of %d extended resources: name at most %d", len(c.ResourceCosts), maxPrices)
	}
	if c.Currency != "" && !money.IsCurrency(c.Currency) {
		return fmt.Errorf("currency %q is not an ISO 4217 code such as EUR", message.Clip(c.Currency, 10))
	}
	return nil
}

// OfferManifest records the offer in a ClusterAdvertisement that an administrator has written. If
// the offer is new or has changed, it counts as an advertisement made now. If the cluster has an
// agent, OfferManifest does nothing.
//
// OfferManifest returns fault.Conflict if another ClusterAdvertisement describes the cluster, and
// fault.Invalid for impossible values.
func (b *Broker) OfferManifest(ctx context.Context, offer *ledger.Offer) error {
	if err := CheckOffer(offer); err != nil {
		return fault.New(fault.Invalid, "%v", err)
	}
	return b.commitPlan(ctx, func(s *session) error {
		known := s.book.Cluster(offer.ClusterID)
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
		if err := s.clusters.withdrawFormer(offer); err != nil {
			return err
		}
		s.clusters.presenceOf(offer.ClusterID).heard = s.now()
		return s.record(ledger.Event{Change: offer})
	})
}

// withdrawFormer withdraws the earlier offer in the object that now contains offer, if the earlier
// offer was for another cluster. That happens if the object was deleted and created again.
func (cs *clusters) withdrawFormer(offer *ledger.Offer) error {
	other := cs.s.book.ByManifest(offer.Source.Namespace, offer.Source.Name)
	if other == nil || other.Agent || other.ClusterID == offer.ClusterID {
		return nil
	}
	return cs.s.record(ledger.Event{Change: &ledger.Offer{ClusterID: other.ClusterID}})
}

// WithdrawManifest withdraws an administrator's offer whose ClusterAdvertisement was deleted.
// Existing reservations stay. It does nothing if the cluster has an agent, or if its offer is not in
// the object with this UID.
func (b *Broker) WithdrawManifest(ctx context.Context, clusterID, uid string) error {
	return b.commitPlan(ctx, func(s *session) error {
		known := s.book.Cluster(clusterID)
		if known == nil || known.Agent || known.Source == nil || known.Source.UID != uid {
			return nil
		}
		return s.record(ledger.Event{Change: &ledger.Offer{ClusterID: clusterID}})
	})
}

// ClusterOfManifest returns the cluster that a ClusterAdvertisement describes and the UID of that
// object, "" if there is none.
func (b *Broker) ClusterOfManifest(ctx context.Context, namespace, name string) (clusterID, uid string, err error) {
	err = b.commitPlan(ctx, func(s *session) error {
		if c := s.book.ByManifest(namespace, name); c != nil {
			clusterID, uid = c.ClusterID, c.Source.UID
		}
		return nil
	})
	return clusterID, uid, err
}
