package broker

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/mutant"
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
		Allocatable: c.Allocatable,
		Available:   t.offers(c),
		Region:      c.Region,
		Zone:        c.Zone,
	}
	for _, s := range c.Shapes {
		candidate.Shapes = append(candidate.Shapes, decision.Shape{Count: int64(s.Count), Free: s.Free})
	}
	candidate.Prices, candidate.Currency = prices(c.Cost)
	if err := t.market.Upsert(candidate); err != nil {
		t.b.opts.Log.Error(err, "cluster left out of decisions", "cluster", c.ClusterID)
		t.market.Remove(c.ClusterID)
	}
	// Whatever an offer says may be what somebody waits for, not its amounts alone.
	t.grew(c.ClusterID)
	t.judge(c.ClusterID)
}

// relist brings what is free in a cluster up to date.
func (t *term) relist(clusterID string) {
	c := t.state.Cluster(clusterID)
	if mutant.Active != mutant.StaleGrant {
		t.market.SetAvailable(clusterID, t.offers(c))
	}
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
	}
	silent, shut := phase != ClusterActive || t.awaits(clusterID) || t.unmet(c), t.shutOut(c)
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
	t.due.set(clusterDue+clusterID, next)
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

// prices reads what a cluster asks for. They were validated on receipt; one that
// cannot be read any more counts as not named.
func prices(cost *ledger.Cost) (map[corev1.ResourceName]decision.Price, string) {
	if cost == nil {
		return nil, ""
	}
	out := map[corev1.ResourceName]decision.Price{}
	add := func(name corev1.ResourceName, text string) {
		if price, err := decision.ParsePrice(text); text != "" && err == nil {
			out[name] = price
		}
	}
	add(corev1.ResourceCPU, cost.CPU)
	add(corev1.ResourceMemory, cost.Memory)
	for name, text := range cost.Resources {
		add(corev1.ResourceName(name), text)
	}
	return out, cost.Currency
}
