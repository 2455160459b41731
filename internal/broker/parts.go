package broker

import (
	"iter"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
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
