package broker

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
)

// The session embeds its parts, whose methods implement most of the interfaces through which other parts
// see it. These methods implement the rest. Now is the only clock.

func (s *session) Began() time.Time                { return s.began }
func (s *session) Book() *ledger.State             { return s.book }
func (s *session) Log() logr.Logger                { return s.log }
func (s *session) Now() time.Time                  { return s.b.opts.Now().UTC() }
func (s *session) PublishCluster(clusterID string) { s.b.feed.AddCluster(clusterID) }
func (s *session) WakeCallers()                    { s.b.wakeAll() }

func (s *session) IsConfigured() bool       { return s.b.configured }
func (s *session) IsPaused() bool           { return s.currentConfig().Queue.Paused }
func (s *session) Bounds() *requests.Bounds { return &s.currentConfig().Bounds }
func (s *session) Budget() *budget.Budget   { return &s.currentConfig().Budget }
func (s *session) Headroom() int            { return s.currentConfig().Headroom }
func (s *session) IdleBound() (*ledger.IdlePolicy, bool) {
	return s.currentConfig().Idle, s.b.configured
}
func (s *session) ConfiguredDrains() (map[string]drains.Drain, bool) {
	return s.currentConfig().Drains, s.b.configured
}
func (s *session) QueueLength() (waiting, most int) {
	return s.Queue.Len(), s.currentConfig().Queue.MaxLength
}
func (s *session) RatesDate() string                 { return s.currentConfig().Rates.Date }
func (s *session) StaleThreshold() time.Duration     { return s.currentConfig().StaleThreshold }
func (s *session) Timeouts() *term.Timeouts          { return &s.currentConfig().Timeouts }
func (s *session) Visibility() visibility.Visibility { return s.currentConfig().Visibility }
func (s *session) Weights() decision.Weights         { return s.currentConfig().Weights }

func (s *session) Rules() queueing.Rules {
	c := s.currentConfig()
	return queueing.Rules{Config: c.Queue, Preemption: c.Preemption, Priorities: c.PriorityLimits, Headroom: c.Headroom}
}

// NotePhase says that the phase of a cluster has changed.
func (s *session) NotePhase(clusterID string, phase term.ClusterPhase) {
	s.CloseAbandoned(clusterID)
	if phase != term.Active {
		s.NoteSilence(clusterID)
	}
}

// IsDenied reports whether the administrator's lists exclude a cluster. A cluster without an agent
// needs no approval, because an administrator wrote its ClusterAdvertisement.
func (s *session) IsDenied(c *ledger.Cluster) bool {
	policy := s.currentConfig().Access
	return policy.Denied(c.ClusterID) || c.Agent && policy.Check(c.ClusterID) != nil
}

// CheckRequester returns an error for a denied requester. A requester without an agent needs no
// approval, because it need not be a cluster.
func (s *session) CheckRequester(id string) error {
	if policy := s.currentConfig().Access; policy.Denied(id) || s.book.HasAgent(id) {
		return policy.Check(id)
	}
	return nil
}
