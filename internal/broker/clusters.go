package broker

import (
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// presence is what the broker knows about one cluster and does not store in the book.
type presence struct {
	// heard is when the cluster last advertised, or when its manifest last changed. epoch and
	// sequence are those of the last advertisement. The broker numbers the starts of an agent; this
	// number is the epoch.
	heard           time.Time
	epoch, sequence int64
	// pending is an offer that differs too little from the recorded one to be recorded at once. It
	// is recorded when a decision depends on it.
	pending *ledger.Offer
	phase   ClusterPhase
	// demand is the sum of the requests of the cluster's unschedulable pods, as last advertised.
	demand PendingDemand
	// leap describes the last implausible growth of the offer, and leapt is when the broker noticed
	// it; see offers.Leap.
	leap  string
	leapt time.Time
	// fetched is when the cluster first asked for its instructions in this term, zero if it has
	// not.
	fetched time.Time
	// denied is true if the administrator's lists excluded the cluster at the last updateFreshness.
	// admitted is when updateFreshness last changed denied from true to false; zero if it has not
	// done so in this term.
	denied   bool
	admitted time.Time
	// open is true if the cluster can get new reservations, as of the last updateFreshness.
	open bool
	// raw is the capacity that is not promised, negative if the cluster has promised more than it
	// has. free is the part of it that any request may use. Both are as of the last updateFree.
	raw, free quantity.Amounts
	// standing holds the cluster's drain and its pauses as a provider, excess its pauses as a
	// requester, as stored in the market; nil for none.
	standing *decision.Standing
	excess   *decision.Excess
}

// clusters tracks all clusters and how recently they were heard, and keeps their rows in the market
// consistent with the book.
type clusters struct {
	s    *session
	byID map[string]*presence
	// reshaped are the clusters whose node shapes in the market are outdated.
	reshaped clusterSet
	// tainted are the clusters that offer nodes with taints.
	tainted clusterSet
	// ceilings are the limits of over-subscription in the book, as of the last noteCeilings.
	ceilings quantity.Ratios
}

func newClusters(s *session) clusters {
	return clusters{s: s, byID: map[string]*presence{}, reshaped: clusterSet{}, tainted: clusterSet{}}
}

// presenceOf returns the presence of a cluster. If there is none, presenceOf creates it.
func (cs *clusters) presenceOf(clusterID string) *presence {
	p := cs.byID[clusterID]
	if p == nil {
		p = &presence{}
		cs.byID[clusterID] = p
	}
	return p
}

// startFromBook fills the market and the presence of each cluster from the book. Agents are treated
// as if they had just advertised, because they could not reach the broker before.
func (cs *clusters) startFromBook() {
	cs.noteCeilings()
	cs.s.book.Clusters(func(c *ledger.Cluster) {
		p := cs.presenceOf(c.ClusterID)
		p.heard = c.OfferedAt
		if c.Agent {
			p.heard = cs.s.began
		}
		cs.upsertCandidate(c)
	})
}

func (cs *clusters) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		cs.upsertCandidate(cs.s.book.Cluster(change.ClusterID))
		cs.s.b.feed.addCluster(change.ClusterID)
	case *ledger.Usage:
		cs.upsertCandidate(cs.s.book.Cluster(change.ClusterID))
		cs.s.b.feed.addCluster(change.ClusterID)
	case *ledger.LiftPauses:
		cs.updateFreshness(change.ClusterID)
	case *ledger.ForgetCluster:
		cs.dropCluster(change.ClusterID)
	case *ledger.Exceed:
		cs.updateRequester(e.Changed.Requester)
		return // nothing was freed
	case *ledger.Configure:
		if cs.noteCeilings() {
			cs.s.book.Clusters(cs.upsertCandidate)
		}
	case *ledger.Lineage:
		// Quotes that ended because of the new lineage may have held capacity.
		cs.s.book.Clusters(func(c *ledger.Cluster) { cs.refreshAvailability(c.ClusterID) })
	case *ledger.ProviderGone:
		cs.updateRequester(e.Changed.Requester) // the end of a placement may change the requester's pauses
	}
	if e.Changed != nil {
		for i := range e.Changed.Placements {
			cs.refreshAvailability(e.Changed.Placements[i].Provider)
		}
	}
}

// upsertCandidate adds a cluster with its offer to the market, or updates it there. It removes the
// cluster from the market if the cluster no longer offers anything, or if the market refuses the
// offer.
func (cs *clusters) upsertCandidate(c *ledger.Cluster) {
	if isWithdrawn(c) {
		cs.updateFree(c)
		cs.s.market.Remove(c.ClusterID)
		cs.updateFreshness(c.ClusterID)
		return
	}
	if !cs.s.market.Has(c.ClusterID) {
		cs.presenceOf(c.ClusterID).standing = nil // so that updateFreshness tells the market about it
	}
	candidate := decision.Candidate{
		ID:          c.ClusterID,
		Allocatable: c.Lendable(),
		Available:   cs.updateFree(c),
		Region:      c.Region,
		Zone:        c.Zone,
		Labels:      c.Labels,
		Claims:      c.Claims,
		Lending:     c.Lending,
	}
	cs.reshaped.add(c.ClusterID)
	cs.noteTaints(c)
	setPrices(&candidate, c.Cost)
	if err := cs.s.market.Upsert(candidate); err != nil {
		cs.s.log.Error(err, "cluster ignored in decisions", "cluster", c.ClusterID)
		cs.s.market.Remove(c.ClusterID)
	}
	// A waiting request may fit because of any change in the offer, not only of the amounts.
	cs.s.queue.noteFreed(c.ClusterID)
	cs.updateFreshness(c.ClusterID)
}

// isWithdrawn reports whether a cluster no longer offers anything: its ClusterAdvertisement was
// deleted and it has no agent, or it was forgotten. It stays in the book for what was reserved there.
func isWithdrawn(c *ledger.Cluster) bool { return !c.Agent && c.Source == nil }

// updateFree recomputes and returns a cluster's free capacity. If it grew, the cluster is noted as
// freed, so that waiting requests are tried there. For a cluster that has promised more than it
// has, a smaller deficit also counts as growth, because fewer victims then have to make room.
func (cs *clusters) updateFree(c *ledger.Cluster) quantity.Amounts {
	p, free := cs.presenceOf(c.ClusterID), cs.s.preemption.openCapacity(c)
	raw := c.Lendable().Sub(c.Allocated).Sub(c.Claimed())
	if hasMore(p.raw, raw) || hasMore(p.free, free) {
		cs.s.queue.noteFreed(c.ClusterID)
	}
	p.raw, p.free = raw, free
	return free
}

// hasMore reports whether any amount in after is larger than the one in before.
func hasMore(before, after quantity.Amounts) bool {
	for name, amount := range after {
		if amount > before[name] {
			return true
		}
	}
	return false
}

// updateReliability updates the cluster's reliability score in the market.
func (cs *clusters) updateReliability(c *ledger.Cluster) {
	var known *float64
	if share, ok := c.Record.Share(cs.s.now()); ok {
		known = &share
	}
	cs.s.market.SetReliability(c.ClusterID, known)
}

// refreshAvailability updates a cluster's free capacity and reliability in the market after its
// placements or quotes have changed.
func (cs *clusters) refreshAvailability(clusterID string) {
	c := cs.s.book.Cluster(clusterID)
	cs.s.market.SetAvailable(clusterID, cs.updateFree(c))
	cs.reshaped.add(clusterID)
	if p := cs.presenceOf(clusterID); c.Providing != nil || p.standing != nil {
		cs.updateFreshness(clusterID)
	}
	cs.updateReliability(c)
	cs.s.b.feed.addCluster(clusterID)
}

// headroomOf returns the capacity that the administrator keeps free on a cluster. The ledger does
// not check it, so a larger headroom does not affect existing reservations.
func (cs *clusters) headroomOf(c *ledger.Cluster) quantity.Amounts {
	percent := int64(cs.s.config().Headroom)
	if percent == 0 {
		return nil
	}
	kept := quantity.Amounts{}
	for name, whole := range c.Lendable() {
		kept[name] = whole/100*percent + whole%100*percent/100
	}
	return kept
}

func setPrices(c *decision.Candidate, cost *brokerv1alpha1.Cost) {
	t := money.ReadTariff(cost)
	c.Currency, c.Prices, c.StoragePrice, c.EgressPrice = t.Currency, t.PerHour, t.Storage, t.Egress
}
