package broker

import (
	"context"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/clusters"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// watchDue carries out steps when they are due, until ctx ends.
func (s *session) watchDue(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.NextChanged():
		}
		if next, ok := s.CarryOutDue(); ok {
			timer.Reset(max(next.Sub(s.Now()), 0))
		}
	}
}

// CarryOutDue carries out the steps that are due now. It returns the next deadline, and false if
// there is none. It does nothing if another session has begun.
func (s *session) CarryOutDue() (time.Time, bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.session != s {
		return time.Time{}, false
	}
	due, next := s.PopDue(s.Now())
	// Clusters and quotes come before reservations, because reservations may move: their new provider depends on
	// which clusters can get new reservations, and on the capacity that quotes hold there.
	for _, name := range due {
		if id, ok := strings.CutPrefix(name, clusters.Due); ok {
			s.UpdateCluster(id)
			s.RecordSilence(id)
		}
	}
	for _, name := range due {
		prefix, id, _ := strings.Cut(name, "/")
		if expire := s.expirers[prefix+"/"]; expire != nil {
			expire(id)
		}
	}
	for _, name := range due {
		if !strings.Contains(name, "/") {
			s.ExpireReservation(name)
		}
	}
	s.ServeWaiting()
	if len(due) > 0 {
		_, next = s.PopDue(time.Time{})
	}
	return next, !next.IsZero()
}

// NoteFreed implements term.Term.
func (s *session) NoteFreed(clusterID string) {
	s.Freed.Add(clusterID)
	s.Preemptable.Add(clusterID)
	s.Healing.RetrySoon()
}

// refreshOutdated recomputes the free capacity of the clusters that parts noted as outdated.
func (s *session) refreshOutdated() {
	for len(s.Outdated) > 0 {
		id := s.Outdated.First()
		delete(s.Outdated, id)
		s.RefreshCapacity(id)
	}
}

// ServeWaiting grants freed capacity to waiting requests. Then it preempts for waiting requests
// where that has become possible. Its cost depends on what has changed and on the requests that it
// serves, not on the number of waiting requests.
//
// A grant is an event, and observers of events may note more clusters. So ServeWaiting repeats until
// there are none. It returns at once if it is called while it runs.
func (s *session) ServeWaiting() {
	s.refreshOutdated()
	if s.serving || !s.mayServe() {
		return
	}
	s.serving = true
	defer func() { s.serving = false }()
	defer s.Limiter.PauseCharging()() // the grants of others are not charged to the caller
	for {
		clusters, serveOn := s.Freed, s.Queue.ServeNextOn
		if len(clusters) == 0 {
			clusters, serveOn = s.Preemptable, s.Queue.PreemptOn
		}
		if len(clusters) == 0 {
			return
		}
		id := clusters.First()
		more, err := serveOn(id)
		if err != nil {
			s.log.Error(err, "serving the queue failed, retrying", "cluster", id)
			s.SetDeadline(queueing.Due, s.Now().Add(term.RetryDelay))
			return
		}
		if !more {
			delete(clusters, id)
		}
	}
}

// mayServe reports whether ServeWaiting has something to try now. If no request waits, it forgets the
// noted clusters.
func (s *session) mayServe() bool {
	if len(s.Freed)+len(s.Preemptable) == 0 || !s.b.configured {
		return false
	}
	if s.Queue.Len() == 0 {
		clear(s.Freed)
		clear(s.Preemptable)
		return false
	}
	if s.IsPaused() {
		return false // the agenda keeps the clusters until the queue is resumed
	}
	if until := s.Recovery.SettledAt(); !until.IsZero() {
		// A waiting request may have been granted in a lost part of the journal.
		s.SetDeadline(queueing.Due, until)
		return false
	}
	return true
}
