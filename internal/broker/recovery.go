package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// recovery handles clusters that know of events that the book does not have, because etcd was
// restored from an older state or the journal was begun anew. Such a cluster has to announce its
// holdings. Until it has done so, nothing is granted on it.
//
// The ledger stores which clusters have announced their holdings. A requester's claims are kept
// only in memory until the providers have announced their holdings as well. So while any
// announcement is missing, every cluster announces again in every term.
type recovery struct {
	s *session
	// waiting are the clusters that get no new reservations before they announce their holdings.
	waiting map[string]bool
	// asked are the requesters that have to announce their holdings because a provider announced a
	// placement in their name. They can get new reservations before they have announced anything.
	asked map[string]bool
	// announced are the clusters that have announced their holdings in this term.
	announced map[string]bool
	// claims are the announced claims of each requester that no provider has confirmed yet.
	claims map[string][]claim
	// void are the placements that each requester claimed and that no provider knows.
	void map[string][]ledger.PlacementRef
	// listenUntil is the time until which nothing is granted on clusters that are not in seen; zero
	// if the journal is known to be up to date.
	listenUntil time.Time
	// seen are the clusters that have called in this term with a cursor, an advertisement or an
	// announcement. If such a cluster knew of lost events, the broker has noticed the loss.
	seen map[string]bool
}

func newRecovery(s *session) recovery {
	rc := recovery{s: s, seen: map[string]bool{}}
	rc.resetAnnouncements()
	return rc
}

// resetAnnouncements drops everything that clusters have announced.
func (rc *recovery) resetAnnouncements() {
	rc.waiting, rc.asked, rc.announced = map[string]bool{}, map[string]bool{}, map[string]bool{}
	rc.claims, rc.void = map[string][]claim{}, map[string][]ledger.PlacementRef{}
}

func (rc *recovery) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		if rc.s.book.Awaits(change.ClusterID) {
			rc.blockUntilAnnounced(change.ClusterID)
		}
	case *ledger.ForgetCluster:
		rc.dropCluster(change.ClusterID)
	}
}

const (
	// recoveryGrace is how long missing announcements delay decisions that affect other clusters.
	// It is the default of Timeouts.Silence.
	recoveryGrace = 90 * time.Second
	// recoveryRetry is how long to wait before repeating a request that depends on a missing
	// announcement.
	recoveryRetry = 2 * time.Second
	// recentJournal is how old the newest event may be for a new process to trust that the journal
	// is up to date. A restored journal is older.
	recentJournal = 15 * time.Second
	// listenGrace is how long a new process that cannot trust the journal grants nothing on
	// clusters that have not called: they may know of events that the journal has lost.
	listenGrace = 10 * time.Second
)

// byBroker is recorded instead of a cluster if the broker itself noticed that its journal was
// restored.
const byBroker = "the broker"

// Witness processes the cursor that a cluster sends with a call. A cursor ahead of the journal
// means that the journal was restored from an older state.
func (b *Broker) Witness(clusterID, cursor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, err := b.currentSession(); err == nil {
		s.recovery.noteCursor(clusterID, cursor)
	}
}

func (rc *recovery) noteCursor(clusterID, cursor string) {
	if cursor == "" {
		return // the cluster has no cursor yet
	}
	switch meant, position := readCursor(cursor, rc.s.book); meant {
	case foreign:
		rc.requireAnnouncement(clusterID)
	case lost:
		rc.startLineage(position, clusterID)
	case followed:
	}
	rc.markSeen(clusterID)
}

// beginLineage records the first lineage of a new journal. For any other journal, it checks whether
// this process remembers later positions than the journal has. If so, the journal was restored.
func (rc *recovery) beginLineage() {
	if rc.s.book.Lineages().Present() == nil {
		if err := rc.s.record(ledger.Event{Change: firstLineage()}); err != nil {
			rc.s.log.Error(err, "recording the first lineage failed")
		}
		return
	}
	rc.s.noteDurable(rc.s.book.Position())
	rc.awaitClusters(rc.s.newest)
	rc.blockAwaited()
	if meant, position := readCursor(rc.s.b.newest, rc.s.book); meant == lost {
		rc.startLineage(position, byBroker)
	}
}

// awaitClusters sets listenUntil if there is no proof that the journal is up to date. newest is the
// time of the journal's newest event.
func (rc *recovery) awaitClusters(newest time.Time) {
	if rc.s.b.newest == "" && rc.s.began.Sub(newest) > recentJournal {
		rc.listenUntil = rc.s.began.Add(listenGrace)
		rc.s.book.Clusters(func(c *ledger.Cluster) { rc.s.clusters.updateFreshness(c.ClusterID) })
	}
}

// markSeen notes that a cluster has called in this term. From then on, isUnseen returns false for
// it.
func (rc *recovery) markSeen(clusterID string) {
	if rc.seen[clusterID] {
		return
	}
	rc.seen[clusterID] = true
	if rc.s.book.Cluster(clusterID) != nil {
		rc.s.clusters.updateFreshness(clusterID)
	}
}

// isUnseen reports whether a cluster may still show that the journal has lost events.
func (rc *recovery) isUnseen(c *ledger.Cluster) bool {
	return c.Agent && rc.s.now().Before(rc.listenUntil) && !rc.seen[c.ClusterID]
}

func (rc *recovery) countUnseen() int {
	n := 0
	if rc.s.now().Before(rc.listenUntil) {
		rc.s.book.Clusters(func(c *ledger.Cluster) {
			if rc.isUnseen(c) {
				n++
			}
		})
	}
	return n
}

// startLineage begins a new lineage after a restore was noticed, so that all clusters have to
// announce their holdings. seen is the lost position that was noticed; by is the cluster that
// showed it, or byBroker.
func (rc *recovery) startLineage(seen uint64, by string) {
	head := rc.s.book.Position()
	if err := rc.s.record(ledger.Event{Change: &ledger.Lineage{ID: lineageID(), Seen: seen, By: by}}); err != nil {
		rc.s.log.Error(err, "recording a new lineage failed, retrying when the next cluster shows a later position")
		return
	}
	rc.resetAnnouncements()
	rc.blockAwaited()
	rc.s.log.Info("WARNING: journal was restored from an older state: nothing is granted on a cluster before its agent has announced its holdings",
		"position", head, "seen", seen, "by", by, "clusters", len(rc.waiting))
	rc.s.b.wakeAll()
}

// blockAwaited calls blockUntilAnnounced for all clusters whose announcement the ledger awaits.
func (rc *recovery) blockAwaited() {
	rc.s.book.Clusters(func(c *ledger.Cluster) {
		if rc.s.book.Awaits(c.ClusterID) {
			rc.blockUntilAnnounced(c.ClusterID)
		}
	})
}

// blockUntilAnnounced makes sure that nothing is granted on a cluster until it has announced its
// holdings.
func (rc *recovery) blockUntilAnnounced(clusterID string) {
	rc.waiting[clusterID] = true
	if rc.s.book.Cluster(clusterID) != nil {
		rc.s.clusters.updateFreshness(clusterID)
		rc.s.b.feed.addCluster(clusterID)
	}
}

// requireAnnouncement asks a cluster to announce its holdings because the cluster knows more than
// the book. It does not ask a cluster again that has announced them.
func (rc *recovery) requireAnnouncement(clusterID string) {
	announced := rc.announced[clusterID] || rc.s.book.Lineages().Restored() && rc.s.book.HasAgent(clusterID) && !rc.s.book.Awaits(clusterID)
	if announced || rc.waiting[clusterID] {
		return
	}
	rc.s.log.Info("cluster reports reservations the journal does not have; asking for its holdings", "cluster", clusterID)
	rc.blockUntilAnnounced(clusterID)
	rc.s.b.wakeAll()
}

// checkUsage calls requireAnnouncement for a provider that reports usage of a placement that is not
// in the book.
func (rc *recovery) checkUsage(clusterID string, usage []v1.Usage) {
	for _, u := range usage {
		r := rc.s.book.Reservation(u.Reservation)
		if r == nil || r.Adoptable(u.Placement) {
			rc.requireAnnouncement(clusterID)
			return
		}
	}
}

// isBlocked reports whether a cluster must announce its holdings before anything is granted on it.
func (rc *recovery) isBlocked(clusterID string) bool { return rc.waiting[clusterID] }

// wantsAnnouncement reports whether a cluster should announce its holdings now.
func (rc *recovery) wantsAnnouncement(clusterID string) bool {
	return rc.isBlocked(clusterID) || rc.asked[clusterID] || !rc.announced[clusterID] && rc.isRecovering()
}

// isRecovering reports whether the journal was restored and some cluster must still announce its
// holdings.
func (rc *recovery) isRecovering() bool {
	if !rc.s.book.Lineages().Restored() {
		return false
	}
	for id := range rc.waiting {
		if rc.s.book.Awaits(id) {
			return true
		}
	}
	return false
}

// recoveryDeadline returns the time until which no request is refused and no reservation is ended,
// because clusters have not called or announced their holdings yet. It returns zero if the broker
// waits for no cluster or that time is over.
func (rc *recovery) recoveryDeadline() time.Time {
	var until time.Time
	if rc.isRecovering() {
		until = term.Later(rc.s.book.Lineages().Present().At, rc.s.began).Add(recoveryGrace)
	}
	if rc.countUnseen() > 0 {
		until = term.Later(until, rc.listenUntil)
	}
	if !until.After(rc.s.now()) {
		return time.Time{}
	}
	return until
}

// errRecovering returns the refusal of a request that cannot be decided before the recovery is
// over.
func (rc *recovery) errRecovering() *fault.Error {
	e := fault.New(fault.Recovering, "%s; nothing was changed, try again", rc.describeProgress())
	e.RetryAfter = recoveryRetry
	return e
}

func (rc *recovery) describeProgress() string {
	if unmet := rc.countUnseen(); unmet > 0 && !rc.isRecovering() {
		return fmt.Sprintf("the broker was away for a while: waiting for %d clusters to confirm that its journal is up to date", unmet)
	}
	if !rc.isRecovering() {
		return "a cluster reports reservations the journal does not have: waiting until it has announced its holdings"
	}
	waiting, all := 0, 0
	rc.s.book.Clusters(func(c *ledger.Cluster) {
		if c.Agent {
			all++
		}
		if rc.s.book.Awaits(c.ClusterID) {
			waiting++
		}
	})
	b := rc.s.book.Lineages().Present()
	return fmt.Sprintf("journal restored from an older state at position %d (agents have seen %d): waiting for %d of %d clusters to announce their holdings",
		b.Since-1, b.Seen, waiting, all)
}

// checkRequest returns an error for a request that may have been granted in a lost part of the
// journal.
func (rc *recovery) checkRequest(q *Request) error {
	if q.Holds != "" && rc.s.book.Reservation(q.Holds) == nil {
		rc.requireAnnouncement(q.Requester)
	}
	if rc.isBlocked(q.Requester) || rc.isClaimed(q) {
		return rc.errRecovering()
	}
	return nil
}
