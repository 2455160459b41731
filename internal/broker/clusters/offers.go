package clusters

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// AcceptOffer stores an agent's offer. It records the offer at once if it is the agent's first one,
// differs materially from the recorded one, or may let a waiting request fit. Otherwise the offer stays
// pending until a decision depends on it. It reports whether it recorded the offer.
func (cs *Clusters) AcceptOffer(offer *ledger.Offer, epoch, sequence int64) (material bool, err error) {
	p := cs.Presence(offer.ClusterID)
	known := cs.s.Book().Cluster(offer.ClusterID)
	if known != nil && known.Agent {
		if what := offers.Leap(&known.Offer, offer, cs.s.Now().Sub(p.Heard)); what != "" {
			p.leap, p.leapt = what, cs.s.Now()
		}
	}
	if known == nil || !known.Agent || offers.DiffersMaterially(&known.Offer, offer) || cs.s.AwaitsOffer(offer, p.raw, cs.tainted[offer.ClusterID]) {
		if err := cs.recordOffer(offer); err != nil {
			return false, err
		}
		p.pending, material = nil, true
	} else {
		if now := cs.s.Now(); now.Sub(p.usageRecorded).Abs() >= usageEvery && !maps.EqualFunc(known.Used, offer.Used, quantity.Amounts.Equal) {
			if err := cs.recordUsage(offer); err != nil {
				return false, err
			}
			p.usageRecorded = now
		}
		p.pending = offers.ShareEqualParts(&known.Offer, offer)
		if reflect.DeepEqual(p.pending, &known.Offer) {
			p.pending = nil
		}
	}
	p.epoch, p.sequence, p.Heard = epoch, sequence, cs.s.Now()
	cs.UpdateCluster(offer.ClusterID)
	return material, cs.noteReturn(offer.ClusterID)
}

// RecordPending records the pending offer of a cluster, and reports whether it did. It returns false
// if there is none, or if the ledger refuses it.
func (cs *Clusters) RecordPending(clusterID string) (bool, error) {
	p := cs.Presence(clusterID)
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

// RecordOffers records all pending offers, and reports whether it recorded any. It is called
// before a request is refused, because a pending offer may have just enough room.
func (cs *Clusters) RecordOffers() (bool, error) {
	found := false
	for _, id := range slices.Sorted(maps.Keys(cs.byID)) {
		refreshed, err := cs.RecordPending(id)
		if err != nil {
			return false, err
		}
		found = found || refreshed
	}
	return found, nil
}

// OrderAdvertisement returns the epoch of an advertisement, and whether the advertisement repeats
// the last one. An agent without an epoch gets a new one. An advertisement that is older than the
// last one is refused with fault.Conflict. After a restart, the broker accepts the epochs that
// agents already have.
func (p *Presence) OrderAdvertisement(clusterID string, adv *v1.Advertisement) (epoch int64, repeated bool, err error) {
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

// WithdrawFormer withdraws the earlier offer in the object that now contains offer, if the earlier
// offer was for another cluster. That happens if the object was deleted and created again.
func (cs *Clusters) WithdrawFormer(offer *ledger.Offer) error {
	other := cs.s.Book().ByManifest(offer.Source.Namespace, offer.Source.Name)
	if other == nil || other.Agent || other.ClusterID == offer.ClusterID {
		return nil
	}
	return cs.s.Record(ledger.Event{Change: &ledger.Offer{ClusterID: other.ClusterID}})
}

// recordOffer records an offer. If it does not fit in one record, the offer is recorded without the
// usage of its placements, and events of type ledger.Usage follow that change the usage in parts.
func (cs *Clusters) recordOffer(offer *ledger.Offer) error {
	err := cs.s.Record(ledger.Event{Change: offer})
	if _, large := errors.AsType[*term.TooLarge](err); !large {
		return err
	}
	apart := *offer
	apart.Used, apart.UsedApart = nil, true
	err = cs.s.Record(ledger.Event{Change: &apart})
	if large, ok := errors.AsType[*term.TooLarge](err); ok {
		return fault.New(fault.TooLarge, "advertisement of %q takes %d bytes of the journal beside what its placements use, and %d fit: show fewer shapes of nodes, or fewer labels and claims",
			offer.ClusterID, large.Size, journal.MaxRecordBytes)
	}
	if err != nil {
		return err
	}
	return cs.recordUsage(offer)
}

// usageEvery is how often changes of use are recorded that are too small for the whole offer to be recorded. The
// accounts know the use of small placements on a large cluster only from them.
const usageEvery = 10 * time.Minute

// recordUsage records what the placements on a cluster use.
func (cs *Clusters) recordUsage(offer *ledger.Offer) error {
	for _, part := range offers.UsageParts(offer.ClusterID, cs.s.Book().Cluster(offer.ClusterID).Used, offer.Used) {
		if err := cs.s.Record(ledger.Event{Change: &part}); err != nil {
			return err
		}
	}
	return nil
}

// LeapDoubted is how long an implausible growth of a cluster's capacity counts as a doubt about the
// cluster.
const LeapDoubted = 10 * time.Minute

// DoubtsAbout returns everything that is implausible about a cluster now.
func (cs *Clusters) DoubtsAbout(c *ledger.Cluster) []string {
	out := offers.Doubts(&c.Offer)
	if p := cs.Presence(c.ClusterID); p.leap != "" && cs.s.Now().Sub(p.leapt) < LeapDoubted {
		out = append(out, p.leap)
	}
	return out
}

// StoreDemand stores the pending demand that a cluster has advertised. It ignores small
// differences, so that a backlog that comes and goes does not cause a write of the
// ClusterAdvertisement with every advertisement.
func (cs *Clusters) StoreDemand(clusterID string, demand offers.Demand) {
	p := cs.Presence(clusterID)
	if !demand.DiffersMaterially(&p.Demand) {
		return
	}
	p.Demand = demand
	if cs.s.Book().Cluster(clusterID) != nil {
		cs.s.PublishCluster(clusterID)
	}
}
