package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
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
		epoch, repeated, err := s.Presence(clusterID).OrderAdvertisement(clusterID, adv)
		if err != nil {
			b.meter.CountAdvertisement(metrics.Overtaken)
			return err
		}
		if repeated {
			b.meter.CountAdvertisement(metrics.Repeated)
		} else {
			offers.SumUnheld(offer.Used, s.book.Cluster(clusterID))
			material, err := s.AcceptOffer(offer, epoch, adv.Sequence)
			if err != nil {
				b.meter.CountAdvertisement(metrics.Refused)
				return term.FaultOf(err)
			}
			result := metrics.Unchanged
			if material {
				result = metrics.Material
			}
			b.meter.CountAdvertisement(result)
			s.StoreDemand(clusterID, demand)
			s.Links.StoreReport(clusterID, adv.Links)
			s.Idles.NoteReports(clusterID, offer.Used, adv.Vacant)
			if err := s.NoteRecalls(clusterID, adv.Usage); err != nil {
				return term.FaultOf(err)
			}
		}
		s.Recovery.CheckUsage(clusterID, adv.Usage)
		s.Recovery.MarkSeen(clusterID)
		c := s.book.Cluster(clusterID)
		receipt = &v1.AdvertisementReceipt{
			Epoch:       epoch,
			NextSeconds: int32(s.currentConfig().Timeouts.AdvertiseEvery().Seconds()),
			Reserved:    wire.FromAmounts(c.Claimed()),
			Available:   wire.FromAmounts(c.Available()),
			Peers:       s.Links.PeersToProbe(clusterID),

			ReportVacant: s.Idles.WantsVacancies(clusterID),
			Anchor:       s.newestAnchor(),
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerAdvertised)
	return receipt, nil
}

// newestAnchor returns the newest stored position of the journal with its hash. Members remember it.
func (s *session) newestAnchor() v1.Anchor {
	a := s.journal.Anchor()
	return v1.Anchor{Journal: a.Journal, Position: int64(a.Position), Hash: a.Hash}
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
		if err := s.WithdrawFormer(offer); err != nil {
			return err
		}
		s.Presence(offer.ClusterID).Heard = s.Now()
		return s.Record(ledger.Event{Change: offer})
	})
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
		return s.Record(ledger.Event{Change: &ledger.Offer{ClusterID: clusterID}})
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

// LiftPauses clears the failures of a cluster, and with them its pauses, but only once for each
// mark. It reports whether there were any failures.
func (b *Broker) LiftPauses(ctx context.Context, clusterID, mark string) (lifted bool, err error) {
	err = b.commitPlan(ctx, func(s *session) error {
		c := s.book.Cluster(clusterID)
		if c == nil || c.Lifted == mark {
			return nil
		}
		lifted = c.Providing != nil || c.Consuming != nil
		return s.Record(ledger.Event{Change: &ledger.LiftPauses{ClusterID: clusterID, Mark: mark}})
	})
	return lifted && err == nil, err
}
