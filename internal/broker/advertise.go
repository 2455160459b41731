package broker

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// PublishAdvertisement implements the server's Broker. It answers a repetition of the last
// advertisement without storing it again, and refuses an older advertisement with fault.Conflict.
func (b *Broker) PublishAdvertisement(ctx context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if adv.ClusterID != clusterID {
		return nil, fault.New(fault.Forbidden, "the certificate is that of cluster %q: it cannot advertise %q", clusterID, adv.ClusterID)
	}
	offer, err := offers.Read(adv)
	if err != nil {
		b.meter.CountAdvertisement(metrics.Refused)
		return nil, fault.New(fault.Invalid, "advertisement of %q: %v", clusterID, err)
	}
	var receipt *v1.AdvertisementReceipt
	demand, err := offers.ReadDemand(adv, b.opts.Now())
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
			offers.SumUnheld(offer.Used, s.book.Cluster(clusterID))
			if err := s.clusters.acceptOffer(offer, epoch, adv.Sequence); err != nil {
				b.meter.CountAdvertisement(metrics.Refused)
				return err
			}
			s.clusters.storePending(clusterID, demand)
			s.links.StoreReport(clusterID, adv.Links)
			s.idles.NoteReports(clusterID, offer.Used, adv.Vacant)
			if err := s.reservations.noteRecalls(clusterID, adv.Usage); err != nil {
				return faultOf(err)
			}
		}
		s.recovery.CheckUsage(clusterID, adv.Usage)
		s.recovery.MarkSeen(clusterID)
		c := s.book.Cluster(clusterID)
		receipt = &v1.AdvertisementReceipt{
			Epoch:       epoch,
			NextSeconds: int32(s.config().Timeouts.AdvertiseEvery().Seconds()),
			Reserved:    wire.FromAmounts(c.Claimed()),
			Available:   wire.FromAmounts(c.Available()),
			Peers:       s.links.PeersToProbe(clusterID),

			ReportVacant: s.idles.WantsVacancies(clusterID),
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
		if what := offers.Leap(&known.Offer, offer, cs.s.now().Sub(p.heard)); what != "" {
			p.leap, p.leapt = what, cs.s.now()
		}
	}
	if known == nil || !known.Agent || offers.DiffersMaterially(&known.Offer, offer) || cs.s.queue.awaitsOffer(offer) {
		if err := cs.recordOffer(offer); err != nil {
			return faultOf(err)
		}
		p.pending = nil
		cs.s.metering.CountAdvertisement(metrics.Material)
	} else {
		p.pending = offers.ShareEqualParts(&known.Offer, offer)
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

// OfferManifest records the offer in a ClusterAdvertisement that an administrator has written. If
// the offer is new or has changed, it counts as an advertisement made now. If the cluster has an
// agent, OfferManifest does nothing.
//
// OfferManifest returns fault.Conflict if another ClusterAdvertisement describes the cluster, and
// fault.Invalid for impossible values.
func (b *Broker) OfferManifest(ctx context.Context, offer *ledger.Offer) error {
	if err := offers.Check(offer); err != nil {
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
