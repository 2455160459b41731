package broker

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// updateConduct updates the drain of a cluster in the market, and its pauses as a provider and as a
// requester. It returns when the pauses next change merely because time passes, zero if they do not.
func (cs *clusters) updateConduct(c *ledger.Cluster) time.Time {
	now, p := cs.s.now(), cs.presenceOf(c.ClusterID)
	drain, isDrained := cs.s.drains.Find(c.ClusterID)
	if c.Providing != nil || p.standing != nil || isDrained {
		standing := standingOf(c.Providing, now)
		if isDrained {
			standing = drains.WithCordon(&drain, standing)
		}
		if !reflect.DeepEqual(standing, p.standing) {
			cs.s.market.SetStanding(c.ClusterID, standing)
			p.standing = standing
			cs.s.queue.noteFreed(c.ClusterID) // the cluster may serve waiting requests again
			cs.s.b.feed.addCluster(c.ClusterID)
		}
	}
	if c.Consuming != nil || p.excess != nil {
		if excess := excessTexts(c.ClusterID, c.Consuming, now); !reflect.DeepEqual(excess, p.excess) {
			cs.s.market.SetExcess(c.ClusterID, excess)
			p.excess = excess
			cs.s.queue.noteAllFreed() // the cluster's waiting requests may be served again
			cs.s.b.feed.addCluster(c.ClusterID)
		}
	}
	return term.Sooner(c.Providing.Next(now), c.Consuming.Next(now))
}

// updateRequester updates the pauses of a requester, if it has or had any.
func (cs *clusters) updateRequester(id string) {
	if c := cs.s.book.Cluster(id); c != nil && (c.Consuming != nil || cs.presenceOf(id).excess != nil) {
		cs.updateFreshness(id)
	}
}

// standingOf returns the pauses of a provider as texts, nil if it has none.
func standingOf(c *ledger.Conduct, now time.Time) *decision.Standing {
	out := &decision.Standing{}
	if s := c.Suspended(now); s != nil {
		out.Paused = pauseText(s, "")
	}
	c.SuspendedFor(now, func(requester string, s *ledger.Suspension) {
		if out.PausedFor == nil {
			out.PausedFor = map[string]string{}
		}
		out.PausedFor[requester] = pauseText(s, " for "+requester)
	})
	if out.Paused == "" && out.PausedFor == nil {
		return nil
	}
	return out
}

// pauseText describes a pause. It gives the time of its end, not how long it lasts, because the
// text is stored with decisions and read later.
func pauseText(s *ledger.Suspension, whom string) string {
	text := fmt.Sprintf("%d failures in a row%s", s.Failures, whom)
	if s.Failures < 2 {
		text = "a placement on trial failed" + whom
	}
	if s.Trial != "" {
		return text + ", one placement is on trial now"
	}
	return text + ", tries again at " + s.Until.Format(time.RFC3339)
}

// excessTexts returns why providers refuse new reservations of a requester that used more than it
// was granted, nil if none refuses.
func excessTexts(requester string, c *ledger.Conduct, now time.Time) *decision.Excess {
	out := &decision.Excess{}
	if s := c.Suspended(now); s != nil {
		out.All = fmt.Sprintf("%s exceeded grants of several clusters: no cluster grants it anything new before %s",
			requester, s.Until.Format(time.RFC3339))
	}
	c.SuspendedFor(now, func(provider string, s *ledger.Suspension) {
		if out.By == nil {
			out.By = map[string]string{}
		}
		out.By[provider] = fmt.Sprintf("%s exceeded a grant of %s: %s grants it nothing new before %s",
			requester, provider, provider, s.Until.Format(time.RFC3339))
	})
	if out.All == "" && out.By == nil {
		return nil
	}
	return out
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
		return s.record(ledger.Event{Change: &ledger.LiftPauses{ClusterID: clusterID, Mark: mark}})
	})
	return lifted && err == nil, err
}
