package broker

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// presence is the broker's knowledge of one cluster beyond the book.
type presence struct {
	// heard is when the cluster was last heard; epoch and sequence are those of its newest
	// advertisement. Each epoch is a start of its agent, numbered by the broker.
	heard           time.Time
	epoch, sequence int64
	// pending is an offer that differs too little from the recorded one to be worth a record.
	// It stays pending until a decision rests on it.
	pending *ledger.Offer
	phase   ClusterPhase
	// leap describes figures that grew implausibly at the time leapt, see listDoubts.
	leap  string
	leapt time.Time
	// fetched is when the cluster first asked for its instructions in this term, zero if it has
	// not.
	fetched time.Time
	// denied reports whether the administrator's lists shut the cluster out, as of the last
	// updateFreshness. admitted is when they last stopped to; zero for never in this term.
	denied   bool
	admitted time.Time
	// open reports whether the cluster gets new reservations, as of the last updateFreshness.
	open bool
	// raw is the remaining capacity, negative for a cluster that promised more than it has.
	// free is the part of it that is open to all requests. Both are as of the last updateFree.
	raw, free quantity.Amounts
	// standing and excess are the pauses in force, as stored in the market; nil for none.
	standing *decision.Standing
	excess   *decision.Excess
}

// clusters tracks known clusters and their freshness, and keeps their rows in the market
// consistent with the book.
type clusters struct {
	s    *session
	byID map[string]*presence
	// reshaped holds the clusters whose node shapes in the market are out of date.
	reshaped clusterSet
	// tainted holds the clusters that offer tainted nodes.
	tainted clusterSet
}

func newClusters(s *session) clusters {
	return clusters{s: s, byID: map[string]*presence{}, reshaped: clusterSet{}, tainted: clusterSet{}}
}

// presenceOf returns the presence of a cluster. It creates one for an unknown cluster.
func (cs *clusters) presenceOf(clusterID string) *presence {
	p := cs.byID[clusterID]
	if p == nil {
		p = &presence{}
		cs.byID[clusterID] = p
	}
	return p
}

// startFromBook derives everything from the book. It counts agents as heard now: they could not reach
// the broker before.
func (cs *clusters) startFromBook() {
	cs.s.book.Clusters(func(c *ledger.Cluster) {
		p := cs.presenceOf(c.ClusterID)
		p.heard = c.OfferedAt
		if c.Agent {
			p.heard = cs.s.began
		}
		cs.upsertCandidate(c)
	})
}

func (cs *clusters) observe(e event) {
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
		cs.updateRequester(e.changed.Requester)
		return // nothing was freed
	case *ledger.Ceilings:
		cs.s.book.Clusters(cs.upsertCandidate)
	case *ledger.Lineage:
		// Quotes that ended with the lineage may have held capacity.
		cs.s.book.Clusters(func(c *ledger.Cluster) { cs.refreshAvailability(c.ClusterID) })
	case *ledger.ProviderGone:
		cs.updateRequester(e.changed.Requester) // the requester may have kept within its grant
	}
	if e.changed != nil {
		for i := range e.changed.Placements {
			cs.refreshAvailability(e.changed.Placements[i].Provider)
		}
	}
}

// upsertCandidate puts a cluster and its offer into the market.
func (cs *clusters) upsertCandidate(c *ledger.Cluster) {
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
	cs.logLeftOut(c.ClusterID)
	// Anything in the offer may make a waiting request fit, not only the amounts.
	cs.s.queue.noteFreed(c.ClusterID)
	cs.updateFreshness(c.ClusterID)
}

// updateFree recomputes and returns a cluster's free capacity. If it grew, waiting requests may
// be served. For a cluster that promised more than it has, a smaller deficit counts as well:
// fewer victims have to make room.
func (cs *clusters) updateFree(c *ledger.Cluster) quantity.Amounts {
	p, free := cs.presenceOf(c.ClusterID), cs.s.preemption.openCapacity(c)
	raw := c.Lendable().Sub(c.Allocated).Sub(c.Claimed())
	if hasMore(p.raw, raw) || hasMore(p.free, free) {
		cs.s.queue.noteFreed(c.ClusterID)
	}
	p.raw, p.free = raw, free
	return free
}

// hasMore reports whether after has more of any resource than before.
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

// refreshAvailability updates a cluster's free capacity in the market after its placements
// changed.
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

// headroomOf returns the capacity that the administrator keeps back on a cluster. The book does
// not know the headroom: raising it does not affect existing reservations.
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

// recordCeilings records the ratios by which clusters may over-subscribe. Existing reservations
// are unaffected.
func (cs *clusters) recordCeilings() {
	ratios := cs.s.config().OverSubscription
	if cs.s.book.HasCeilings(ratios) {
		return
	}
	cs.s.log.Info("over-subscription ceilings changed", "ceilings", ratios.Texts())
	if err := cs.s.record(ledger.Event{Change: &ledger.Ceilings{OverSubscription: ratios}}); err != nil {
		cs.s.log.Error(err, "recording the over-subscription ceilings failed, retrying with the next term")
	}
}

// applyBudget applies a new limit on resource names.
func (cs *clusters) applyBudget() {
	cs.s.market.SetBudget(cs.s.config().Budget.ResourceNames)
	cs.s.book.Clusters(func(c *ledger.Cluster) {
		if len(cs.s.market.LeftOut(c.ClusterID)) > 0 {
			cs.upsertCandidate(c)
			cs.s.b.feed.addCluster(c.ClusterID)
		}
	})
}

// ignoredResources returns the resources of a cluster that decisions ignore.
func (cs *clusters) ignoredResources(clusterID string) []string {
	var out []string
	for _, name := range cs.s.market.LeftOut(clusterID) {
		out = append(out, string(name))
	}
	return out
}

// logLeftOut logs how many resources decisions ignore.
func (cs *clusters) logLeftOut(clusterID string) {
	if left := cs.ignoredResources(clusterID); len(left) > 0 {
		cs.s.log.Info("resources are ignored in decisions: the cluster advertises too many, or all columns are in use", "cluster", clusterID,
			"resources", len(left), "budget", cs.s.config().Budget.ResourceNames)
	}
}

// setPrices reads the prices of an offer. They were validated on receipt; one that cannot be read
// counts as missing.
func setPrices(c *decision.Candidate, cost *brokerv1alpha1.Cost) {
	if cost == nil {
		return
	}
	read := func(text string) (decision.Price, bool) {
		p, err := decision.ParsePrice(text)
		return p, text != "" && err == nil
	}
	c.Currency, c.Prices = cost.Currency, map[corev1.ResourceName]decision.Price{}
	for name, text := range pricesOf(cost) {
		if p, ok := read(string(text)); ok {
			c.Prices[name] = p
		}
	}
	c.StoragePrice, _ = read(cost.StorageCost)
	c.EgressPrice, _ = read(cost.EgressCost)
}

func pricesOf(cost *brokerv1alpha1.Cost) map[corev1.ResourceName]brokerv1alpha1.Price {
	out := map[corev1.ResourceName]brokerv1alpha1.Price{
		corev1.ResourceCPU: brokerv1alpha1.Price(cost.CPUCost), corev1.ResourceMemory: brokerv1alpha1.Price(cost.MemoryCost),
	}
	maps.Copy(out, cost.ResourceCosts)
	return out
}
