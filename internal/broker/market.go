package broker

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ClusterPhase is how fresh a cluster's word is.
type ClusterPhase string

// Phases of a cluster.
const (
	// ClusterActive takes new reservations.
	ClusterActive ClusterPhase = "Active"
	// ClusterStale missed three intervals and takes nothing new.
	ClusterStale ClusterPhase = "Stale"
	// ClusterInactive was not heard of for Config.StaleThreshold.
	ClusterInactive ClusterPhase = "Inactive"
)

// clusterPhase of a cluster last heard of at an instant. Without an agent nobody
// repeats an offer, so only the long threshold counts.
func clusterPhase(heard, now time.Time, agent bool, threshold time.Duration) ClusterPhase {
	silent := now.Sub(heard)
	switch {
	case silent >= threshold:
		return ClusterInactive
	case agent && silent >= staleAfter:
		return ClusterStale
	default:
		return ClusterActive
	}
}

// nextPhaseChange is when clusterPhase changes next if nothing is heard, zero if never.
func nextPhaseChange(heard, now time.Time, agent bool, threshold time.Duration) time.Time {
	switch clusterPhase(heard, now, agent, threshold) {
	case ClusterInactive:
		return time.Time{}
	case ClusterActive:
		if agent && staleAfter < threshold {
			return heard.Add(staleAfter)
		}
	}
	return heard.Add(threshold)
}

// list puts a cluster's offer into the market.
func (t *term) list(c *ledger.Cluster) {
	candidate := decision.Candidate{
		ID:          c.ClusterID,
		Allocatable: c.Lendable(),
		Available:   t.offers(c),
		Region:      c.Region,
		Zone:        c.Zone,
		Labels:      c.Labels,
		Claims:      c.Claims,
		Lending:     c.Lending,
	}
	t.shaped.add(c.ClusterID)
	t.moved(c)
	price(&candidate, c.Cost)
	if err := t.market.Upsert(candidate); err != nil {
		t.b.opts.Log.Error(err, "cluster left out of decisions", "cluster", c.ClusterID)
		t.market.Remove(c.ClusterID)
	}
	t.noteLeftOut(c.ClusterID)
	// Whatever an offer says may be what somebody waits for, not its amounts alone.
	t.grew(c.ClusterID)
	t.judge(c.ClusterID)
}

// rate has decisions know how a cluster kept its promises.
func (t *term) rate(c *ledger.Cluster) {
	var known *float64
	if share, ok := c.Record.Share(t.now()); ok {
		known = &share
	}
	t.market.SetReliability(c.ClusterID, known)
}

// relist brings what is free in a cluster up to date.
func (t *term) relist(clusterID string) {
	c := t.state.Cluster(clusterID)
	t.market.SetAvailable(clusterID, t.offers(c))
	t.shaped.add(clusterID)
	if p := t.presenceOf(clusterID); c.Providing != nil || p.standing != nil {
		t.judge(clusterID)
	}
	t.rate(c)
	t.b.feed.cluster(clusterID)
}

// judge decides, by the clock and the lists of the administrator, whether a cluster
// takes new reservations.
func (t *term) judge(clusterID string) {
	p, c := t.presenceOf(clusterID), t.state.Cluster(clusterID)
	threshold := t.b.config.StaleThreshold
	phase := clusterPhase(p.heard, t.now(), c.Agent, threshold)
	if phase != p.phase {
		p.phase = phase
		t.b.feed.cluster(clusterID)
		t.noteAbandoned(clusterID)
	}
	silent, shut := phase != ClusterActive || t.awaits(clusterID) || t.unmet(c), t.shutOut(c)
	t.rate(c)
	t.market.SetStale(clusterID, silent)
	t.market.SetDenied(clusterID, shut)
	if open := !silent && !shut; open != p.open {
		p.open = open
		if open {
			t.grew(clusterID)
		}
	}
	next := nextPhaseChange(p.heard, t.now(), c.Agent, threshold)
	if t.unmet(c) {
		next = t.listenUntil
	}
	t.due.set(clusterDue+clusterID, sooner(next, t.setStanding(c)))
}

// shutOut clusters take nothing new. Where no agent speaks for a cluster an
// administrator does, who need not be approved.
func (t *term) shutOut(c *ledger.Cluster) bool {
	policy := t.b.config.Access
	return policy.Denied(c.ClusterID) || c.Agent && policy.Check(c.ClusterID) != nil
}

func (t *term) judgeAll() {
	t.state.Clusters(func(c *ledger.Cluster) { t.judge(c.ClusterID) })
}

// kept is what the administrator keeps back of a cluster. The book does not know of it:
// what was promised stands when more is kept back.
func (t *term) kept(c *ledger.Cluster) quantity.Amounts {
	percent := int64(t.b.config.Headroom)
	if percent == 0 {
		return nil
	}
	kept := quantity.Amounts{}
	for name, whole := range c.Lendable() {
		kept[name] = whole/100*percent + whole%100*percent/100
	}
	return kept
}

// setCeilings has the book know how far clusters may promise more than they have. What was
// promised under other ceilings stands.
func (t *term) setCeilings() {
	ratios := t.b.config.OverSubscription
	if t.state.HasCeilings(ratios) {
		return
	}
	t.b.opts.Log.Info("ceilings of over-subscription change", "ceilings", ratios.Texts())
	if err := t.record(ledger.Event{Change: &ledger.Ceilings{OverSubscription: ratios}}); err != nil {
		t.b.opts.Log.Error(err, "ceilings of over-subscription could not be set; they are with the next term")
	}
}

// price reads what a cluster asks for. It was validated on receipt; what cannot be
// read any more counts as not named.
func price(c *decision.Candidate, cost *ledger.Cost) {
	if cost == nil {
		return
	}
	read := func(text string) (decision.Price, bool) {
		p, err := decision.ParsePrice(text)
		return p, text != "" && err == nil
	}
	c.Currency, c.Prices = cost.Currency, map[corev1.ResourceName]decision.Price{}
	for name, text := range pricesOf(cost) {
		if p, ok := read(text); ok {
			c.Prices[name] = p
		}
	}
	c.StoragePrice, _ = read(cost.Storage)
	c.EgressPrice, _ = read(cost.Egress)
}

func pricesOf(cost *ledger.Cost) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{corev1.ResourceCPU: cost.CPU, corev1.ResourceMemory: cost.Memory}
	for name, text := range cost.Resources {
		out[corev1.ResourceName(name)] = text
	}
	return out
}
