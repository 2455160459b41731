package clusters

import (
	"fmt"
	"reflect"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// updateConduct updates the drain of a cluster in the market, and its pauses as a provider and as a
// requester. It returns when the pauses next change merely because time passes, zero if they do not.
func (cs *Clusters) updateConduct(c *ledger.Cluster) time.Time {
	p := cs.Presence(c.ClusterID)
	standing, first := standingOf(c.Providing, cs.s.Now())
	if why := cs.s.Cordon(c.ClusterID); why != "" {
		if standing == nil {
			standing = &decision.Standing{}
		}
		standing.Cordoned = why
	}
	if !reflect.DeepEqual(standing, p.Standing) {
		cs.market.SetStanding(c.ClusterID, standing)
		p.Standing = standing
		cs.s.NoteFreed(c.ClusterID) // the cluster may serve waiting requests again
		cs.s.PublishCluster(c.ClusterID)
	}
	excess, second := excessOf(c.ClusterID, c.Consuming, cs.s.Now())
	if !reflect.DeepEqual(excess, p.Excess) {
		cs.market.SetExcess(c.ClusterID, excess)
		p.Excess = excess
		term.NoteAllFreed(cs.s) // the cluster's waiting requests may be served again
		cs.s.PublishCluster(c.ClusterID)
	}
	return term.Sooner(first, second)
}

func (cs *Clusters) updateRequester(id string) {
	if c := cs.s.Book().Cluster(id); c != nil && (c.Consuming != nil || cs.Presence(id).Excess != nil) {
		cs.UpdateCluster(id)
	}
}

// standingOf returns the pauses of a provider, nil if it has none, and when they next change because
// time passes.
func standingOf(r *reputation.Reputation, now time.Time) (*decision.Standing, time.Time) {
	all, of, next := r.Suspended(now)
	if all == nil && of == nil {
		return nil, next
	}
	out := &decision.Standing{}
	if all != nil {
		out.Paused = pauseOf(all, "")
	}
	for requester, s := range of {
		if out.PausedFor == nil {
			out.PausedFor = map[string]decision.Pause{}
		}
		out.PausedFor[requester] = pauseOf(&s, " for "+requester)
	}
	return out, next
}

// pauseOf describes a pause. It gives the time of its end, not how long it lasts, because the text is
// stored with decisions and read later.
func pauseOf(s *reputation.Suspension, whom string) decision.Pause {
	text := fmt.Sprintf("%d failures in a row%s, ", s.Failures, whom)
	if s.Failures < 2 {
		text = "a placement on trial failed" + whom + ", "
	}
	if s.LastResort {
		text += "until " + s.Until.Format(time.RFC3339) + " it serves only if no other can"
	} else {
		text += "tries again at " + s.Until.Format(time.RFC3339)
	}
	return decision.Pause{Why: text, LastResort: s.LastResort}
}

// excessOf returns why providers refuse new reservations of a requester that used more than it was
// granted, nil if none refuses, and when that next changes because time passes.
func excessOf(requester string, r *reputation.Reputation, now time.Time) (*decision.Excess, time.Time) {
	all, by, next := r.Suspended(now)
	out := &decision.Excess{}
	if all != nil && !all.LastResort {
		out.All = fmt.Sprintf("%s exceeded grants of several clusters: no cluster grants it anything new before %s",
			requester, all.Until.Format(time.RFC3339))
	}
	for provider, s := range by {
		if s.LastResort {
			continue
		}
		if out.By == nil {
			out.By = map[string]string{}
		}
		out.By[provider] = fmt.Sprintf("%s exceeded a grant of %s: %s grants it nothing new before %s",
			requester, provider, provider, s.Until.Format(time.RFC3339))
	}
	if out.All == "" && out.By == nil {
		return nil, next
	}
	return out, next
}
