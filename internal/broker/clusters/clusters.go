// Package clusters tracks the clusters: how recently each was heard, what it offers, and whether it may
// get new reservations.
package clusters

import (
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Due is the prefix of the names of the deadlines at which the freshness of a cluster changes.
const Due = "cluster/"

// Session is what the clusters need of the broker's session.
type Session interface {
	term.Term
	Timeouts() *term.Timeouts
	StaleThreshold() time.Duration
	IsDenied(c *ledger.Cluster) bool
	// Cordon says why the administrator excludes a cluster from new reservations, "" if not.
	Cordon(clusterID string) string
	// Nothing is granted on a cluster that IsBlocked until it announces its holdings, or that IsUnseen
	// until ListenUntil.
	IsBlocked(clusterID string) bool
	IsUnseen(c *ledger.Cluster) bool
	ListenUntil() time.Time
	// OpenCapacity is the capacity of a cluster that any request may use. AwaitsOffer reports whether a new
	// offer may let a waiting request fit.
	OpenCapacity(c *ledger.Cluster) quantity.Amounts
	AwaitsOffer(o *ledger.Offer, before quantity.Amounts, tainted bool) bool
	// NotePhase says that the phase of a cluster has changed.
	NotePhase(clusterID string, phase term.ClusterPhase)
}

// Presence is what the broker knows about one cluster and does not store in the book.
type Presence struct {
	// Heard is when the cluster last advertised, or when its manifest last changed. epoch and
	// sequence are those of the last advertisement. The broker numbers the starts of an agent; this
	// number is the epoch.
	Heard           time.Time
	epoch, sequence int64
	// pending is an offer that differs too little from the recorded one to be recorded at once. It
	// is recorded when a decision depends on it.
	pending *ledger.Offer
	// usageRecorded is when the use of placements was last recorded without the offer, see usageEvery.
	usageRecorded time.Time
	Phase         term.ClusterPhase
	// Demand is the sum of the requests of the cluster's unschedulable pods, as last advertised.
	Demand offers.Demand
	// leap describes the last implausible growth of the offer, and leapt is when the broker noticed
	// it; see offers.Leap.
	leap  string
	leapt time.Time
	// Fetched is when the cluster first asked for its instructions in this term, zero if it has
	// not.
	Fetched time.Time
	// denied is true if the administrator's lists excluded the cluster at the last UpdateCluster.
	// admitted is when UpdateCluster last changed denied from true to false; zero if it has not
	// done so in this term.
	denied   bool
	admitted time.Time
	// Open is true if the cluster can get new reservations, as of the last UpdateCluster.
	Open bool
	// raw is the capacity that is not promised, negative if the cluster has promised more than it
	// has. Free is the part of it that any request may use. Both are as of the last updateFree.
	raw, Free quantity.Amounts
	// Standing holds the cluster's drain and its pauses as a provider, Excess its pauses as a
	// requester, as stored in the market; nil for none.
	Standing *decision.Standing
	Excess   *decision.Excess
}

// Clusters tracks all clusters and how recently they were heard, and keeps their rows in the market
// consistent with the book.
type Clusters struct {
	s      Session
	market *decision.Market
	byID   map[string]*Presence
	// reshaped are the clusters whose node shapes in the market are outdated.
	reshaped map[string]bool
	// tainted are the clusters that offer nodes with taints.
	tainted map[string]bool
	// elastic are the clusters that can create nodes. extended is true while SupposeElastic counts
	// these nodes.
	elastic  map[string]bool
	extended bool
	// ceilings are the limits of over-subscription in the book, as of the last noteCeilings.
	ceilings quantity.Ratios
}

// New returns Clusters without any.
func New(s Session, market *decision.Market) *Clusters {
	return &Clusters{s: s, market: market, byID: map[string]*Presence{}, reshaped: map[string]bool{}, tainted: map[string]bool{}, elastic: map[string]bool{}}
}

// Presence returns the presence of a cluster. If there is none, Presence creates it.
func (cs *Clusters) Presence(clusterID string) *Presence {
	p := cs.byID[clusterID]
	if p == nil {
		p = &Presence{}
		cs.byID[clusterID] = p
	}
	return p
}

// StartFromBook fills the market and the presence of each cluster from the book. Agents are treated
// as if they had just advertised, because they could not reach the broker before.
func (cs *Clusters) StartFromBook() {
	cs.noteCeilings()
	cs.s.Book().Clusters(func(c *ledger.Cluster) {
		p := cs.Presence(c.ClusterID)
		p.Heard = c.OfferedAt
		if c.Agent {
			p.Heard = cs.s.Began()
		}
		cs.upsertCandidate(c)
	})
}

// Observe implements term.Observer.
func (cs *Clusters) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		cs.upsertCandidate(cs.s.Book().Cluster(change.ClusterID))
		cs.s.PublishCluster(change.ClusterID)
	case *ledger.Usage:
		cs.upsertCandidate(cs.s.Book().Cluster(change.ClusterID))
		cs.s.PublishCluster(change.ClusterID)
	case *ledger.LiftPauses:
		cs.UpdateCluster(change.ClusterID)
	case *ledger.ForgetCluster:
		cs.dropCluster(change.ClusterID)
	case *ledger.Exceed:
		cs.updateRequester(e.Changed.Requester)
		return // nothing was freed
	case *ledger.Configure:
		if cs.noteCeilings() {
			cs.s.Book().Clusters(cs.upsertCandidate)
		}
	case *ledger.Lineage:
		// Quotes that ended because of the new lineage may have held capacity.
		cs.s.Book().Clusters(func(c *ledger.Cluster) { cs.RefreshCapacity(c.ClusterID) })
	case *ledger.ProviderGone:
		cs.updateRequester(e.Changed.Requester) // the end of a placement may change the requester's pauses
	}
	if e.Changed != nil {
		for i := range e.Changed.Placements {
			cs.RefreshCapacity(e.Changed.Placements[i].Provider)
		}
	}
}

// upsertCandidate adds a cluster with its offer to the market, or updates it there. It removes the
// cluster from the market if the cluster no longer offers anything, or if the market refuses the
// offer.
func (cs *Clusters) upsertCandidate(c *ledger.Cluster) {
	if c.IsWithdrawn() {
		delete(cs.elastic, c.ClusterID)
		cs.updateFree(c)
		cs.market.Remove(c.ClusterID)
		cs.UpdateCluster(c.ClusterID)
		return
	}
	if !cs.market.Has(c.ClusterID) {
		cs.Presence(c.ClusterID).Standing = nil // so that UpdateCluster tells the market about it
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
	cs.reshaped[c.ClusterID] = true
	cs.noteTaints(c)
	candidate.ReadyWithin = cs.noteElastic(c)
	t := money.ReadTariff(c.Cost)
	candidate.Currency, candidate.Prices, candidate.StoragePrice, candidate.EgressPrice = t.Currency, t.PerHour, t.Storage, t.Egress
	if err := cs.market.Upsert(candidate); err != nil {
		cs.s.Log().Error(err, "cluster ignored in decisions", "cluster", c.ClusterID)
		cs.market.Remove(c.ClusterID)
	}
	// A waiting request may fit because of any change in the offer, not only of the amounts.
	cs.s.NoteFreed(c.ClusterID)
	cs.UpdateCluster(c.ClusterID)
}

// updateFree recomputes and returns a cluster's free capacity. If it grew, the cluster is noted as
// freed, so that waiting requests are tried there. For a cluster that has promised more than it
// has, a smaller deficit also counts as growth, because fewer victims then have to make room.
func (cs *Clusters) updateFree(c *ledger.Cluster) quantity.Amounts {
	p, free := cs.Presence(c.ClusterID), cs.s.OpenCapacity(c)
	raw := c.Lendable().Sub(c.Allocated).Sub(c.Claimed())
	if raw.HasMoreThan(p.raw) || free.HasMoreThan(p.Free) {
		cs.s.NoteFreed(c.ClusterID)
	}
	p.raw, p.Free = raw, free
	return free
}

func (cs *Clusters) updateReliability(c *ledger.Cluster) {
	var known *float64
	if share, ok := c.Record.Share(cs.s.Now()); ok {
		known = &share
	}
	cs.market.SetReliability(c.ClusterID, known)
}

// RefreshCapacity updates a cluster's free capacity and reliability in the market after its
// placements or quotes have changed.
func (cs *Clusters) RefreshCapacity(clusterID string) {
	c := cs.s.Book().Cluster(clusterID)
	cs.market.SetAvailable(clusterID, cs.updateFree(c))
	cs.reshaped[clusterID] = true
	if p := cs.Presence(clusterID); c.Providing != nil || p.Standing != nil {
		cs.UpdateCluster(clusterID)
	}
	cs.updateReliability(c)
	cs.s.PublishCluster(clusterID)
}

// RefreshAllCapacities recomputes the free capacity of all clusters after the configuration has changed.
func (cs *Clusters) RefreshAllCapacities() {
	cs.s.Book().Clusters(func(c *ledger.Cluster) { cs.market.SetAvailable(c.ClusterID, cs.updateFree(c)) })
}

func (cs *Clusters) noteCeilings() bool {
	now := cs.s.Book().Configuration().OverSubscription
	changed := !maps.Equal(cs.ceilings, now)
	cs.ceilings = now
	return changed
}

// dropCluster drops everything about a forgotten cluster that is not in the book, and updates the
// market.
func (cs *Clusters) dropCluster(clusterID string) {
	cs.UpdateCluster(clusterID) // also ends the cluster's pauses in the market
	delete(cs.byID, clusterID)
	cs.upsertCandidate(cs.s.Book().Cluster(clusterID))
	cs.s.PublishCluster(clusterID)
}
