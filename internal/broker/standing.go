package broker

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// updateConduct updates in the market the pauses in force for a cluster, as a provider and as a
// requester. It returns when time alone changes them, zero for never.
func (cs *clusters) updateConduct(c *ledger.Cluster) time.Time {
	now, p := cs.s.now(), cs.presenceOf(c.ClusterID)
	if c.Providing != nil || p.standing != nil {
		if standing := standingOf(c.Providing, now); !reflect.DeepEqual(standing, p.standing) {
			cs.s.market.SetStanding(c.ClusterID, standing)
			p.standing = standing
			cs.s.queue.noteFreed(c.ClusterID) // it may serve a waiting request again
			cs.s.b.feed.addCluster(c.ClusterID)
		}
	}
	if c.Consuming != nil || p.excess != nil {
		if excess := excessTexts(c.ClusterID, c.Consuming, now); !reflect.DeepEqual(excess, p.excess) {
			cs.s.market.SetExcess(c.ClusterID, excess)
			p.excess = excess
			cs.s.queue.noteAllFreed() // its waiting requests may be served again
			cs.s.b.feed.addCluster(c.ClusterID)
		}
	}
	return soonerOf(c.Providing.Next(now), c.Consuming.Next(now))
}

// updateRequester updates the pauses of a requester, if it has a record as a consumer.
func (cs *clusters) updateRequester(id string) {
	if c := cs.s.book.Cluster(id); c != nil && (c.Consuming != nil || cs.presenceOf(id).excess != nil) {
		cs.updateFreshness(id)
	}
}

// standingOf describes the pauses of a provider, nil if it has none.
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

// pauseText names an instant instead of a delay, because the text is stored with decisions and
// read later.
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

// excessTexts returns why providers refuse new reservations to a requester that exceeded its
// grants; nil if none refuses.
func excessTexts(requester string, c *ledger.Conduct, now time.Time) *decision.Excess {
	out := &decision.Excess{}
	if s := c.Suspended(now); s != nil {
		out.All = fmt.Sprintf("%s ran more than several clusters granted it: no cluster takes anything new of it before %s",
			requester, s.Until.Format(time.RFC3339))
	}
	c.SuspendedFor(now, func(provider string, s *ledger.Suspension) {
		if out.By == nil {
			out.By = map[string]string{}
		}
		out.By[provider] = fmt.Sprintf("%s ran more than %s granted it: %s takes nothing new of it before %s",
			requester, provider, provider, s.Until.Format(time.RFC3339))
	})
	if out.All == "" && out.By == nil {
		return nil
	}
	return out
}

// LiftPauses clears the failures of a cluster, once for each mark, and reports whether there
// were any.
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

// soonerOf returns the earlier of two instants, where zero means never.
func soonerOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Paused counts the clusters on which nothing new is placed after failures.
func (b *Broker) Paused() float64 {
	return b.countClusters(func(p *presence) bool { return p.standing != nil && p.standing.Paused != "" })
}

// Exceeding counts the clusters that get nothing new because they ran more than they were
// granted.
func (b *Broker) Exceeding() float64 {
	return b.countClusters(func(p *presence) bool { return p.excess != nil && p.excess.All != "" })
}

func (b *Broker) countClusters(which func(*presence) bool) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0.0
	if b.session == nil {
		return n
	}
	for _, p := range b.session.clusters.byID {
		if which(p) {
			n++
		}
	}
	return n
}
