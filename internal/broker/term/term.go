package term

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// RetryDelay is the pause before a part tries again to record an event that could not be recorded.
const RetryDelay = 500 * time.Millisecond

// Term is what a part of the broker gets of the session: the book, the clock, a way to write an event,
// and an agenda, on which it leaves work for other parts. Parts never see each other. All calls are
// made under the broker's lock.
type Term interface {
	// Book returns the ledger, which parts read and never change.
	Book() *ledger.State
	// Now returns the present time, in UTC.
	Now() time.Time
	// Began returns when the term began. Deadlines that agents must meet count from this time at the
	// earliest, because agents could not reach the broker before.
	Began() time.Time
	Log() logr.Logger
	// Record checks an event, applies it to the book, and notifies all observers of it. The event is
	// durable before the call in progress is answered.
	Record(e ledger.Event) error

	// SetDeadline schedules a step for the given time; the zero time cancels it. The name is a prefix
	// that the part owns, followed by an ID.
	SetDeadline(name string, at time.Time)
	// NoteFreed notes that a cluster may now serve a request that it could not serve before. Waiting
	// requests are tried there at the end of the call, and reservations of lost providers earlier than
	// planned.
	NoteFreed(clusterID string)
	// PublishCluster says that the view of a cluster has changed.
	PublishCluster(clusterID string)
}

// NoteAllFreed calls NoteFreed for every cluster.
func NoteAllFreed(t Term) { t.Book().Clusters(func(c *ledger.Cluster) { t.NoteFreed(c.ClusterID) }) }
