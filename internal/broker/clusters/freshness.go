package clusters

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// IsOpen reports whether a cluster can get new reservations.
func (cs *Clusters) IsOpen(clusterID string) bool { return cs.Presence(clusterID).Open }

// PhaseOf says how recently a cluster was heard.
func (cs *Clusters) PhaseOf(clusterID string) term.ClusterPhase { return cs.Presence(clusterID).Phase }

// FetchedAt returns when a cluster first asked for its instructions in this term, zero if it has not.
func (cs *Clusters) FetchedAt(clusterID string) time.Time { return cs.Presence(clusterID).Fetched }

// IsSilent reports whether a cluster with an agent has been silent for too long to be granted anything.
func (cs *Clusters) IsSilent(clusterID string) bool {
	return cs.s.Book().HasAgent(clusterID) && cs.Presence(clusterID).Phase != term.Active
}

// phaseAfter returns the phase of a cluster that was last heard at the given time. A cluster
// without an agent is always Active: its ClusterAdvertisement is valid until it is deleted.
func (cs *Clusters) phaseAfter(heard time.Time, agent bool) term.ClusterPhase {
	silent := cs.s.Now().Sub(heard)
	switch {
	case !agent:
		return term.Active
	case silent >= cs.s.StaleThreshold():
		return term.Inactive
	case silent >= cs.s.Timeouts().Silence:
		return term.Stale
	default:
		return term.Active
	}
}

func (cs *Clusters) nextPhaseChange(heard time.Time, agent bool) time.Time {
	switch cs.phaseAfter(heard, agent) {
	case term.Inactive:
		return time.Time{}
	case term.Active:
		if !agent {
			return time.Time{}
		}
		if cs.s.Timeouts().Silence < cs.s.StaleThreshold() {
			return heard.Add(cs.s.Timeouts().Silence)
		}
	}
	return heard.Add(cs.s.StaleThreshold())
}

// UpdateCluster updates a cluster's phase. In the market, it marks the cluster as stale if the cluster
// is silent or a recovery waits for it, and as denied if the administrator's lists exclude it. It also
// updates the cluster's pauses and reliability there, and schedules the next update.
func (cs *Clusters) UpdateCluster(clusterID string) {
	p, c := cs.Presence(clusterID), cs.s.Book().Cluster(clusterID)
	phase := cs.phaseAfter(p.Heard, c.Agent)
	if phase != p.Phase {
		p.Phase = phase
		cs.s.PublishCluster(clusterID)
		cs.s.NotePhase(clusterID, phase)
	}
	silent, denied := phase != term.Active || cs.s.IsBlocked(clusterID) || cs.s.IsUnseen(c), cs.s.IsDenied(c)
	if p.denied && !denied {
		p.admitted = cs.s.Now()
	}
	if p.denied != denied {
		cs.s.PublishCluster(clusterID)
	}
	p.denied = denied
	cs.updateReliability(c)
	cs.market.SetStale(clusterID, silent)
	cs.market.SetDenied(clusterID, denied)
	if open := !silent && !denied; open != p.Open {
		p.Open = open
		if open {
			cs.s.NoteFreed(clusterID)
		}
	}
	next := term.Sooner(cs.nextPhaseChange(p.Heard, c.Agent), cs.nextPhaseChange(p.admitted, c.Agent))
	if cs.s.IsUnseen(c) {
		next = cs.s.ListenUntil()
	}
	cs.s.SetDeadline(Due+clusterID, term.Sooner(next, cs.updateConduct(c)))
}

// UpdateAllClusters calls UpdateCluster for every cluster.
func (cs *Clusters) UpdateAllClusters() {
	cs.s.Book().Clusters(func(c *ledger.Cluster) { cs.UpdateCluster(c.ClusterID) })
}

// RecordSilence records that a provider with placements is silent, so that its requesters are told.
// The provider keeps its placements.
//
// A denied provider is not allowed to call, so its silence means nothing. After it is admitted
// again, it gets as much time to call as a provider that was just heard.
func (cs *Clusters) RecordSilence(clusterID string) {
	c, p := cs.s.Book().Cluster(clusterID), cs.Presence(clusterID)
	if !c.Agent || p.denied || !c.LostSince.IsZero() || c.Placements() == 0 {
		return
	}
	if cs.phaseAfter(term.Later(p.Heard, p.admitted), c.Agent) == term.Active {
		return
	}
	cs.s.Log().Info("provider is silent, its reservations stay", "cluster", clusterID, "heard", p.Heard, "reservations", len(c.Reservations()))
	if err := cs.s.Record(ledger.Event{Change: &ledger.Silence{ClusterID: clusterID, Since: p.Heard.UTC()}}); err != nil {
		cs.s.Log().Error(err, "recording a silent provider failed, retrying", "cluster", clusterID)
		cs.s.SetDeadline(Due+clusterID, cs.s.Now().Add(term.RetryDelay))
	}
}

// noteReturn records that a cluster's agent was heard again, if the cluster was recorded as silent.
func (cs *Clusters) noteReturn(clusterID string) error {
	if cs.s.Book().Cluster(clusterID).LostSince.IsZero() {
		return nil
	}
	return cs.s.Record(ledger.Event{Change: &ledger.Silence{ClusterID: clusterID}})
}

// SecondsSilent returns how long ago a cluster's agent last advertised, nil if it never has.
func (cs *Clusters) SecondsSilent(clusterID string) *float64 {
	if !cs.s.Book().HasAgent(clusterID) {
		return nil
	}
	return new(max(cs.s.Now().Sub(cs.Presence(clusterID).Heard), 0).Seconds())
}

// RestoreSilence sets, for each cluster that the journal says is silent, when it was last heard.
func (cs *Clusters) RestoreSilence() {
	cs.s.Book().Clusters(func(c *ledger.Cluster) {
		if c.Agent && !c.LostSince.IsZero() {
			cs.Presence(c.ClusterID).Heard = c.LostSince
			cs.UpdateCluster(c.ClusterID)
		}
	})
}
