package broker

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// The session implements the interfaces through which the parts see it.

// Book implements term.Term.
func (s *session) Book() *ledger.State { return s.book }

// Began implements term.Term.
func (s *session) Began() time.Time { return s.began }

// Log implements term.Term.
func (s *session) Log() logr.Logger { return s.log }

// PublishCluster implements term.Term.
func (s *session) PublishCluster(clusterID string) { s.b.feed.addCluster(clusterID) }

// ShowsClusters reports whether requesters may learn of clusters that do not serve them.
func (s *session) ShowsClusters() bool { return s.config().Visibility.ShowsAll() }

// Orders implements drains.Session.
func (s *session) Orders() (map[string]drains.Drain, bool) { return s.config().Drains, s.b.configured }

// IdleBound implements idle.Session.
func (s *session) IdleBound() (*ledger.IdlePolicy, bool) { return s.config().Idle, s.b.configured }

// Wake makes waiting calls look at the session again.
func (s *session) Wake() { s.b.wakeAll() }

// newestCursor returns the cursor of the book's last position.
func (s *session) newestCursor() string { return s.cursorAt(s.book.Position()) }

func (s *session) cursorAt(position uint64) string { return recovery.CursorOf(s.book, position) }

// Rules implements queueing.Session.
func (s *session) Rules() queueing.Rules {
	c := s.config()
	return queueing.Rules{Config: c.Queue, Preemption: c.Preemption, Priorities: c.PriorityLimits, Headroom: c.Headroom}
}

// Weights implements decider.Session.
func (s *session) Weights() decision.Weights { return s.config().Weights }

// Headroom implements decider.Session.
func (s *session) Headroom() int { return s.config().Headroom }

// StaleThreshold implements clusters.Session.
func (s *session) StaleThreshold() time.Duration { return s.config().StaleThreshold }

// NotePhase implements clusters.Session.
func (s *session) NotePhase(clusterID string, phase term.ClusterPhase) {
	s.closeAbandoned(clusterID)
	if phase != term.Active {
		s.NoteSilence(clusterID)
	}
}

// IsDenied reports whether the administrator's lists exclude a cluster. A cluster without an agent
// needs no approval, because an administrator wrote its ClusterAdvertisement.
func (s *session) IsDenied(c *ledger.Cluster) bool {
	policy := s.config().Access
	return policy.Denied(c.ClusterID) || c.Agent && policy.Check(c.ClusterID) != nil
}
