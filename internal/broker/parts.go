package broker

import (
	"iter"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// The session implements the interfaces through which the parts see it.

// Book implements term.Term.
func (s *session) Book() *ledger.State { return s.book }

// Now implements term.Term.
func (s *session) Now() time.Time { return s.now() }

// Began implements term.Term.
func (s *session) Began() time.Time { return s.began }

// Log implements term.Term.
func (s *session) Log() logr.Logger { return s.log }

// Record implements term.Term.
func (s *session) Record(e ledger.Event) error { return s.record(e) }

// SetDeadline implements term.Term.
func (s *session) SetDeadline(name string, at time.Time) { s.deadlines.setDeadline(name, at) }

// FreeCluster implements term.Term.
func (s *session) FreeCluster(clusterID string) { s.queue.noteFreed(clusterID) }

// PublishCluster implements term.Term.
func (s *session) PublishCluster(clusterID string) { s.b.feed.addCluster(clusterID) }

// TakingPart iterates over the reservations in which a cluster takes part, in the order of their last
// changes.
func (s *session) TakingPart(clusterID string) iter.Seq[*ledger.Reservation] {
	return s.news.logOf(clusterID).allReservations(s.book)
}

// IsOpen reports whether a cluster can get new reservations.
func (s *session) IsOpen(clusterID string) bool { return s.clusters.presenceOf(clusterID).open }

// ShowsClusters reports whether requesters may learn of clusters that do not serve them.
func (s *session) ShowsClusters() bool { return s.config().Visibility.ShowsAll() }

// Timeouts returns how long the broker waits for agents.
func (s *session) Timeouts() *term.Timeouts { return &s.config().Timeouts }

// Orders implements drains.Session.
func (s *session) Orders() (map[string]drains.Drain, bool) { return s.config().Drains, s.b.configured }

// IdleBound implements idle.Session.
func (s *session) IdleBound() (*ledger.IdlePolicy, bool) { return s.config().Idle, s.b.configured }

// SettledAt returns until when nothing may be decided, because the journal may have lost events; zero if
// it may be decided now.
func (s *session) SettledAt() time.Time { return s.recovery.SettledAt() }

// IsSilent reports whether a cluster with an agent has been silent for too long to be granted anything.
func (s *session) IsSilent(clusterID string) bool {
	return s.book.HasAgent(clusterID) && s.clusters.presenceOf(clusterID).phase != ClusterActive
}

// CanPlace reports whether a provider can serve a request.
func (s *session) CanPlace(q *requests.Request, tried ledger.Tried) bool {
	_, ok := s.decider.pickBest(s.decider.newDecisionRequest(q, tried), q.Target)
	return ok
}

// Decide chooses a provider as decideInTurn does.
func (s *session) Decide(q *requests.Request, tried ledger.Tried) (*term.Decision, error) {
	return s.reservations.decideInTurn(q, tried)
}

// RecordOffers records all pending offers, and reports whether there were any.
func (s *session) RecordOffers() (bool, error) { return s.clusters.recordAllPending() }

// Reschedule updates the deadline of a reservation, after its state has changed.
func (s *session) Reschedule(r *ledger.Reservation) { s.deadlines.rescheduleReservation(r) }

// ReservationsOf returns the reservations in which a cluster takes part, sorted by name.
func (s *session) ReservationsOf(clusterID string) []*ledger.Reservation {
	return s.news.reservationsOf(clusterID)
}

// EndReservation ends a reservation that its requester no longer wants, unless it has ended.
func (s *session) EndReservation(r *ledger.Reservation, by ledger.Actor, message string) error {
	return s.reservations.releaseReservation(r, by, message)
}

// UpdateCluster checks whether a cluster may get new reservations, after its state has changed.
func (s *session) UpdateCluster(clusterID string) { s.clusters.updateFreshness(clusterID) }

// Wake makes waiting calls look at the session again.
func (s *session) Wake() { s.b.wakeAll() }

// newestCursor returns the cursor of the book's last position.
func (s *session) newestCursor() string { return s.cursorAt(s.book.Position()) }

func (s *session) cursorAt(position uint64) string { return recovery.CursorOf(s.book, position) }

// Drain is an administrator's order about a cluster.
type Drain = drains.Drain
