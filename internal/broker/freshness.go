package broker

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// ClusterPhase says how recently a cluster was heard.
type ClusterPhase = term.ClusterPhase

// The phases of a cluster. A Stale cluster has been silent for Timeouts.Silence, an Inactive one for
// Config.StaleThreshold.
const (
	ClusterActive   = term.Active
	ClusterStale    = term.Stale
	ClusterInactive = term.Inactive
)

// clusterPhase returns the phase of a cluster that was last heard at the given time. A cluster
// without an agent is always Active: its ClusterAdvertisement is valid until it is deleted.
func clusterPhase(heard, now time.Time, agent bool, config *Config) ClusterPhase {
	silent := now.Sub(heard)
	switch {
	case !agent:
		return ClusterActive
	case silent >= config.StaleThreshold:
		return ClusterInactive
	case silent >= config.Timeouts.Silence:
		return ClusterStale
	default:
		return ClusterActive
	}
}

// nextPhaseChange returns when the phase changes if the cluster stays silent, zero if the phase
// does not change.
func nextPhaseChange(heard, now time.Time, agent bool, config *Config) time.Time {
	switch clusterPhase(heard, now, agent, config) {
	case ClusterInactive:
		return time.Time{}
	case ClusterActive:
		if !agent {
			return time.Time{}
		}
		if config.Timeouts.Silence < config.StaleThreshold {
			return heard.Add(config.Timeouts.Silence)
		}
	}
	return heard.Add(config.StaleThreshold)
}

// updateFreshness updates a cluster's phase. In the market, it marks the cluster as stale if the cluster
// is silent or a recovery waits for it, and as denied if the administrator's lists exclude it. It also
// updates the cluster's pauses and reliability there, and schedules the next update.
func (cs *clusters) updateFreshness(clusterID string) {
	p, c := cs.presenceOf(clusterID), cs.s.book.Cluster(clusterID)
	phase := clusterPhase(p.heard, cs.s.now(), c.Agent, cs.s.config())
	if phase != p.phase {
		p.phase = phase
		cs.s.b.feed.addCluster(clusterID)
		cs.s.deadlines.closeAbandoned(clusterID)
		if phase != ClusterActive {
			cs.s.idles.NoteSilence(clusterID)
		}
	}
	silent, shut := phase != ClusterActive || cs.s.recovery.IsBlocked(clusterID) || cs.s.recovery.IsUnseen(c), cs.isDenied(c)
	if p.denied && !shut {
		p.admitted = cs.s.now()
	}
	if p.denied != shut {
		cs.s.b.feed.addCluster(clusterID)
	}
	p.denied = shut
	cs.updateReliability(c)
	cs.s.market.SetStale(clusterID, silent)
	cs.s.market.SetDenied(clusterID, shut)
	if open := !silent && !shut; open != p.open {
		p.open = open
		if open {
			cs.s.queue.noteFreed(clusterID)
		}
	}
	next := term.Sooner(nextPhaseChange(p.heard, cs.s.now(), c.Agent, cs.s.config()), nextPhaseChange(p.admitted, cs.s.now(), c.Agent, cs.s.config()))
	if cs.s.recovery.IsUnseen(c) {
		next = cs.s.recovery.ListenUntil()
	}
	cs.s.deadlines.setDeadline(clusterDue+clusterID, term.Sooner(next, cs.updateConduct(c)))
}

// isDenied reports whether the administrator's lists exclude a cluster. A cluster without an agent
// needs no approval, because an administrator wrote its ClusterAdvertisement.
func (cs *clusters) isDenied(c *ledger.Cluster) bool {
	policy := cs.s.config().Access
	return policy.Denied(c.ClusterID) || c.Agent && policy.Check(c.ClusterID) != nil
}

func (cs *clusters) updateAllFreshness() {
	cs.s.book.Clusters(func(c *ledger.Cluster) { cs.updateFreshness(c.ClusterID) })
}

// noteSilence records that a provider with placements is silent, so that its requesters are told.
// The provider keeps its placements.
//
// A denied provider is not allowed to call, so its silence means nothing. After it is admitted
// again, it gets as much time to call as a provider that was just heard.
func (cs *clusters) noteSilence(clusterID string) {
	c, p := cs.s.book.Cluster(clusterID), cs.presenceOf(clusterID)
	if !c.Agent || p.denied || !c.LostSince.IsZero() || c.Placements() == 0 {
		return
	}
	if clusterPhase(term.Later(p.heard, p.admitted), cs.s.now(), c.Agent, cs.s.config()) == ClusterActive {
		return
	}
	cs.s.log.Info("provider is silent, its reservations stay", "cluster", clusterID, "heard", p.heard, "reservations", len(c.Reservations()))
	if err := cs.s.record(ledger.Event{Change: &ledger.Silence{ClusterID: clusterID, Since: p.heard.UTC()}}); err != nil {
		cs.s.log.Error(err, "recording a silent provider failed, retrying", "cluster", clusterID)
		cs.s.deadlines.setDeadline(clusterDue+clusterID, cs.s.now().Add(reopenDelay))
	}
}

// noteReturn records that a cluster's agent was heard again, if the cluster was recorded as silent.
func (cs *clusters) noteReturn(clusterID string) error {
	if cs.s.book.Cluster(clusterID).LostSince.IsZero() {
		return nil
	}
	return cs.s.record(ledger.Event{Change: &ledger.Silence{ClusterID: clusterID}})
}

// secondsSilent returns how long ago a cluster's agent last advertised, nil if it never has.
func (cs *clusters) secondsSilent(clusterID string) *float64 {
	if !cs.s.book.HasAgent(clusterID) {
		return nil
	}
	return new(max(cs.s.now().Sub(cs.presenceOf(clusterID).heard), 0).Seconds())
}
