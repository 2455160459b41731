// Package recovery handles journals that were restored from an older state. Clusters that know more than
// the journal announce their holdings, and get nothing new before.
package recovery

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Session is what the recovery needs of the broker's session.
type Session interface {
	term.Term
	// ReservationsOf returns the reservations in which a cluster takes part, sorted by name.
	ReservationsOf(clusterID string) []*ledger.Reservation
	// EndReservation ends a reservation that its requester no longer wants, unless it has ended.
	EndReservation(r *ledger.Reservation, by ledger.Actor, message string) error
	// UpdateCluster checks whether a cluster may get new reservations, after its state has changed.
	UpdateCluster(clusterID string)
	// Reschedule updates the deadline of a reservation, after its state has changed.
	Reschedule(r *ledger.Reservation)
	// WakeCallers makes waiting calls look at the session again.
	WakeCallers()
}

// Recovery handles clusters that know of events that the book does not have, because etcd was
// restored from an older state or the journal was begun anew. Such a cluster has to announce its
// holdings. Until it has done so, nothing is granted on it.
//
// The ledger stores which clusters have announced their holdings. A requester's claims are kept
// only in memory until the providers have announced their holdings as well. So while any
// announcement is missing, every cluster announces again in every term.
type Recovery struct {
	s Session
	// waiting are the clusters that get no new reservations before they announce their holdings.
	waiting map[string]bool
	// asked are the requesters that have to announce their holdings because a provider announced a
	// placement in their name. They can get new reservations before they have announced anything.
	asked map[string]bool
	// announced are the clusters that have announced their holdings in this term.
	announced map[string]bool
	// claims are the announced claims of each requester that no provider has confirmed yet.
	claims map[string][]claim
	// void lists, by requester, the claimed placements that no provider knows.
	void map[string][]ledger.PlacementRef
	// listenUntil is the time until which nothing is granted on clusters that are not in seen; zero
	// if the journal is known to be up to date.
	listenUntil time.Time
	// seen are the clusters that have called in this term with a cursor, an advertisement or an
	// announcement. If such a cluster knew of lost events, the broker has noticed the loss.
	seen map[string]bool
}

// New returns a Recovery that no cluster has called.
func New(s Session) *Recovery {
	rc := &Recovery{s: s, seen: map[string]bool{}}
	rc.resetAnnouncements()
	return rc
}

// resetAnnouncements drops everything that clusters have announced.
func (rc *Recovery) resetAnnouncements() {
	rc.waiting, rc.asked, rc.announced = map[string]bool{}, map[string]bool{}, map[string]bool{}
	rc.claims, rc.void = map[string][]claim{}, map[string][]ledger.PlacementRef{}
}

// Observe implements term.Observer.
func (rc *Recovery) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		if rc.s.Book().Awaits(change.ClusterID) {
			rc.blockUntilAnnounced(change.ClusterID)
		}
	case *ledger.ForgetCluster:
		rc.dropCluster(change.ClusterID)
	}
}

const (
	// Grace is how long missing announcements delay decisions that affect other clusters.
	// It is the default of Timeouts.Silence.
	Grace = 90 * time.Second
	// recoveryRetry is how long to wait before repeating a request that depends on a missing
	// announcement.
	recoveryRetry = 2 * time.Second
	// recentJournal is how far the newest event may be from the present for a new process to trust that
	// the journal is up to date. A restored journal is older, unless the clock was set back.
	recentJournal = 15 * time.Second
	// ListenGrace is how long a new process that cannot trust the journal grants nothing on
	// clusters that have not called: they may know of events that the journal has lost.
	ListenGrace = 10 * time.Second
)

// byBroker is recorded instead of a cluster if the broker itself noticed that its journal was
// restored.
const byBroker = "the broker"

// NoteCursor processes the cursor that a cluster sends with a call, "" if it has none. A cursor ahead of
// the journal means that the journal was restored from an older state.
func (rc *Recovery) NoteCursor(clusterID, cursor string) {
	if cursor == "" {
		return // the cluster has no cursor yet
	}
	switch meant, position := readCursor(cursor, rc.s.Book()); meant {
	case foreign:
		rc.requireAnnouncement(clusterID)
	case lost:
		rc.startLineage(position, clusterID)
	case followed:
	}
	rc.MarkSeen(clusterID)
}

// BeginLineage records the first lineage of a new journal. For any other journal, it checks whether
// this process remembers later positions than the journal has. If so, the journal was restored.
// remembered is the cursor of the newest position that this process remembers, "" if it remembers none;
// newest is the time of the journal's newest event.
func (rc *Recovery) BeginLineage(remembered string, newest time.Time) {
	if rc.s.Book().Lineages().Present() == nil {
		if err := rc.s.Record(ledger.Event{Change: firstLineage()}); err != nil {
			rc.s.Log().Error(err, "recording the first lineage failed")
		}
		return
	}
	if remembered == "" {
		rc.awaitClusters(newest)
	}
	rc.blockAwaited()
	if meant, position := readCursor(remembered, rc.s.Book()); meant == lost {
		rc.startLineage(position, byBroker)
	}
	// An earlier term may have ended before the requesters announced what providers had announced in
	// their names.
	for _, r := range rc.unclaimedReservations() {
		rc.askRequester(r.Requester)
	}
}

// awaitClusters sets listenUntil if there is no proof that the journal is up to date. newest is the
// time of the journal's newest event.
func (rc *Recovery) awaitClusters(newest time.Time) {
	if rc.s.Began().Sub(newest).Abs() > recentJournal {
		rc.listenUntil = rc.s.Began().Add(ListenGrace)
		rc.s.Book().Clusters(func(c *ledger.Cluster) { rc.s.UpdateCluster(c.ClusterID) })
	}
}

// MarkSeen notes that a cluster has called in this term. From then on, IsUnseen returns false for
// it.
func (rc *Recovery) MarkSeen(clusterID string) {
	if rc.seen[clusterID] {
		return
	}
	rc.seen[clusterID] = true
	if rc.s.Book().Cluster(clusterID) != nil {
		rc.s.UpdateCluster(clusterID)
	}
}

// IsUnseen reports whether a cluster may still show that the journal has lost events.
func (rc *Recovery) IsUnseen(c *ledger.Cluster) bool {
	return c.Agent && rc.s.Now().Before(rc.listenUntil) && !rc.seen[c.ClusterID]
}

func (rc *Recovery) countUnseen() int {
	n := 0
	if rc.s.Now().Before(rc.listenUntil) {
		rc.s.Book().Clusters(func(c *ledger.Cluster) {
			if rc.IsUnseen(c) {
				n++
			}
		})
	}
	return n
}

// startLineage begins a new lineage after a restore was noticed, so that all clusters have to
// announce their holdings. seen is the lost position that was noticed; by is the cluster that
// showed it, or byBroker.
func (rc *Recovery) startLineage(seen uint64, by string) {
	head := rc.s.Book().Position()
	if err := rc.s.Record(ledger.Event{Change: &ledger.Lineage{ID: lineageID(), Seen: seen, By: by}}); err != nil {
		rc.s.Log().Error(err, "recording a new lineage failed, retrying when the next cluster shows a later position")
		return
	}
	rc.resetAnnouncements()
	rc.blockAwaited()
	rc.s.Log().Info("WARNING: journal was restored from an older state: nothing is granted on a cluster before its agent has announced its holdings",
		"position", head, "seen", seen, "by", by, "clusters", len(rc.waiting))
	rc.s.WakeCallers()
}

// blockAwaited calls blockUntilAnnounced for all clusters whose announcement the ledger awaits.
func (rc *Recovery) blockAwaited() {
	rc.s.Book().Clusters(func(c *ledger.Cluster) {
		if rc.s.Book().Awaits(c.ClusterID) {
			rc.blockUntilAnnounced(c.ClusterID)
		}
	})
}

func (rc *Recovery) blockUntilAnnounced(clusterID string) {
	rc.waiting[clusterID] = true
	if rc.s.Book().Cluster(clusterID) != nil {
		rc.s.UpdateCluster(clusterID)
		rc.s.PublishCluster(clusterID)
	}
}

// requireAnnouncement asks a cluster to announce its holdings because the cluster knows more than
// the book. It does not ask a cluster again that has announced them.
func (rc *Recovery) requireAnnouncement(clusterID string) {
	announced := rc.announced[clusterID] || rc.s.Book().Lineages().Restored() && rc.s.Book().HasAgent(clusterID) && !rc.s.Book().Awaits(clusterID)
	if announced || rc.waiting[clusterID] {
		return
	}
	rc.s.Log().Info("cluster reports reservations the journal does not have; asking for its holdings", "cluster", clusterID)
	rc.blockUntilAnnounced(clusterID)
	rc.s.WakeCallers()
}

// CheckUsage calls requireAnnouncement for a provider that reports usage of a placement that is not
// in the book.
func (rc *Recovery) CheckUsage(clusterID string, usage []v1.Usage) {
	for _, u := range usage {
		r := rc.s.Book().Reservation(u.Reservation)
		if r == nil || r.Adoptable(u.Placement) {
			rc.requireAnnouncement(clusterID)
			return
		}
	}
}

// IsBlocked reports whether a cluster must announce its holdings before anything is granted on it.
func (rc *Recovery) IsBlocked(clusterID string) bool { return rc.waiting[clusterID] }

// WantsAnnouncement reports whether a cluster should announce its holdings now.
func (rc *Recovery) WantsAnnouncement(clusterID string) bool {
	return rc.IsBlocked(clusterID) || rc.asked[clusterID] || !rc.announced[clusterID] && rc.IsRecovering()
}

// IsRecovering reports whether the journal was restored and some cluster must still announce its
// holdings.
func (rc *Recovery) IsRecovering() bool {
	if !rc.s.Book().Lineages().Restored() {
		return false
	}
	for id := range rc.waiting {
		if rc.s.Book().Awaits(id) {
			return true
		}
	}
	return false
}

// SettledAt returns the time until which no request is refused and no reservation is ended,
// because clusters have not called or announced their holdings yet. It returns zero if the broker
// waits for no cluster or that time is over.
func (rc *Recovery) SettledAt() time.Time {
	var until time.Time
	if rc.IsRecovering() {
		until = term.Later(rc.s.Book().Lineages().Present().At, rc.s.Began()).Add(Grace)
	}
	if rc.countUnseen() > 0 {
		until = term.Later(until, rc.listenUntil)
	}
	if !until.After(rc.s.Now()) {
		return time.Time{}
	}
	return until
}

// ErrRecovering returns the refusal of a request that cannot be decided before the recovery is
// over.
func (rc *Recovery) ErrRecovering() *fault.Error {
	return fault.New(fault.Recovering, "%s; nothing was changed, try again", rc.DescribeProgress()).RetryIn(recoveryRetry)
}

// DescribeProgress says which announcements are missing.
func (rc *Recovery) DescribeProgress() string {
	if unmet := rc.countUnseen(); unmet > 0 && !rc.IsRecovering() {
		return fmt.Sprintf("the broker was away for a while: waiting for %d clusters to confirm that its journal is up to date", unmet)
	}
	if !rc.IsRecovering() {
		return "a cluster reports reservations the journal does not have: waiting until it has announced its holdings"
	}
	waiting, all := 0, 0
	rc.s.Book().Clusters(func(c *ledger.Cluster) {
		if c.Agent {
			all++
		}
		if rc.s.Book().Awaits(c.ClusterID) {
			waiting++
		}
	})
	b := rc.s.Book().Lineages().Present()
	return fmt.Sprintf("journal restored from an older state at position %d (agents have seen %d): waiting for %d of %d clusters to announce their holdings",
		b.Since-1, b.Seen, waiting, all)
}

// CheckRequest returns an error for a request that may have been granted in a lost part of the
// journal.
func (rc *Recovery) CheckRequest(q *requests.Request) error {
	held := rc.s.Book().Reservation(q.Holds)
	if q.Holds != "" && held == nil {
		rc.requireAnnouncement(q.Requester)
	}
	claimsNext := held != nil && held.Unclaimed && held.EndReason == "" && held.Requester == q.Requester && rc.asked[q.Requester]
	if rc.IsBlocked(q.Requester) || rc.isClaimed(q) || claimsNext {
		return rc.ErrRecovering()
	}
	return nil
}

// CountAwaited returns the number of clusters that get no new reservations before they announce their
// holdings.
func (rc *Recovery) CountAwaited() int { return len(rc.waiting) }

// ListenUntil returns the time until which nothing is granted on clusters for which IsUnseen is true.
func (rc *Recovery) ListenUntil() time.Time { return rc.listenUntil }

// TrustCluster counts a cluster as one that has called in this term.
func (rc *Recovery) TrustCluster(clusterID string) { rc.seen[clusterID] = true }

// dropCluster drops everything that the recovery stores about a forgotten cluster.
func (rc *Recovery) dropCluster(clusterID string) {
	for _, of := range []map[string]bool{rc.waiting, rc.asked, rc.announced, rc.seen} {
		delete(of, clusterID)
	}
	delete(rc.claims, clusterID)
	delete(rc.void, clusterID)
}
