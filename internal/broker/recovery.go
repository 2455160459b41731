package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// recovery handles clusters that know more than the book, because etcd was restored from an
// older state or the journal was begun anew. Such clusters announce their holdings. Until then
// nothing is granted on them.
//
// The ledger stores which clusters have announced. The claims of requesters are kept only here,
// until their providers have announced too. So while an announcement is outstanding, every
// cluster announces once in every term.
type recovery struct {
	s *session
	// waiting holds the clusters that get no new reservations before they announce.
	waiting map[string]bool
	// asked holds requesters that have to announce because a provider announced a placement in
	// their name. They are not blocked meanwhile.
	asked map[string]bool
	// announced holds the clusters that have announced in this term.
	announced map[string]bool
	// claims holds announced requests that no provider has confirmed yet, by requester.
	claims map[string][]claim
	// void holds placements that a requester claimed and no provider knows.
	void map[string][]ledger.PlacementRef
	// listenUntil is the end of the time in which nothing is granted on unseen clusters; zero
	// if the journal is known to be up to date.
	listenUntil time.Time
	// seen holds the clusters that have shown their knowledge in this term.
	seen map[string]bool
}

func newRecovery(s *session) recovery {
	rc := recovery{s: s, seen: map[string]bool{}}
	rc.resetAnnouncements()
	return rc
}

// resetAnnouncements forgets all announcements.
func (rc *recovery) resetAnnouncements() {
	rc.waiting, rc.asked, rc.announced = map[string]bool{}, map[string]bool{}, map[string]bool{}
	rc.claims, rc.void = map[string][]claim{}, map[string][]ledger.PlacementRef{}
}

func (rc *recovery) observe(e event) {
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
	// recoveryGrace is how long absent clusters hold up decisions about others. It is the
	// default of Timeouts.Silence.
	recoveryGrace = 90 * time.Second
	// recoveryRetry is when to retry a request that depends on outstanding announcements.
	recoveryRetry = 2 * time.Second
	// recentJournal is the largest age of the newest event at which a process without other
	// knowledge considers the journal up to date. A restored journal is older.
	recentJournal = 15 * time.Second
	// listenGrace is how long a process with a possibly outdated journal grants nothing on
	// clusters that have not called: they may know of events that the journal has lost.
	listenGrace = 10 * time.Second
)

// byBroker is recorded as the discoverer of a restored journal if no cluster discovered it.
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

// beginLineage starts the first lineage of a new journal. For an existing one it checks whether this
// process remembers later positions than the journal has.
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

// awaitClusters makes the session wait for clusters if there is no proof that the journal is up to
// date.
func (rc *recovery) awaitClusters(newest time.Time) {
	if rc.s.b.newest == "" && rc.s.began.Sub(newest) > recentJournal {
		rc.listenUntil = rc.s.began.Add(listenGrace)
		rc.s.book.Clusters(func(c *ledger.Cluster) { rc.s.clusters.updateFreshness(c.ClusterID) })
	}
}

// markSeen notes that a cluster has shown its knowledge.
func (rc *recovery) markSeen(clusterID string) {
	if rc.seen[clusterID] {
		return
	}
	rc.seen[clusterID] = true
	if rc.s.book.Cluster(clusterID) != nil {
		rc.s.clusters.updateFreshness(clusterID)
	}
}

// isUnseen reports whether a cluster may know of events that the journal has lost.
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

// startLineage begins a new lineage, in which all clusters announce their holdings.
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

// blockAwaited blocks all clusters whose announcement the ledger awaits.
func (rc *recovery) blockAwaited() {
	rc.s.book.Clusters(func(c *ledger.Cluster) {
		if rc.s.book.Awaits(c.ClusterID) {
			rc.blockUntilAnnounced(c.ClusterID)
		}
	})
}

// blockUntilAnnounced grants nothing on a cluster until it has announced.
func (rc *recovery) blockUntilAnnounced(clusterID string) {
	rc.waiting[clusterID] = true
	if rc.s.book.Cluster(clusterID) != nil {
		rc.s.clusters.updateFreshness(clusterID)
		rc.s.b.feed.addCluster(clusterID)
	}
}

// requireAnnouncement asks a cluster to announce because it knows more than the book. A cluster
// that has announced already is not asked again.
func (rc *recovery) requireAnnouncement(clusterID string) {
	announced := rc.announced[clusterID] || rc.s.book.Lineages().Restored() && rc.s.book.HasAgent(clusterID) && !rc.s.book.Awaits(clusterID)
	if announced || rc.waiting[clusterID] {
		return
	}
	rc.s.log.Info("cluster reports reservations the journal does not have; asking for its holdings", "cluster", clusterID)
	rc.blockUntilAnnounced(clusterID)
	rc.s.b.wakeAll()
}

// checkUsage requires an announcement from a provider that holds capacity for a placement
// missing from the book.
func (rc *recovery) checkUsage(clusterID string, usage []v1.Usage) {
	for _, u := range usage {
		r := rc.s.book.Reservation(u.Reservation)
		if r == nil || r.Adoptable(u.Placement) {
			rc.requireAnnouncement(clusterID)
			return
		}
	}
}

// isBlocked reports whether a cluster is blocked until it announces.
func (rc *recovery) isBlocked(clusterID string) bool { return rc.waiting[clusterID] }

// wantsAnnouncement reports whether a cluster should announce now.
func (rc *recovery) wantsAnnouncement(clusterID string) bool {
	return rc.isBlocked(clusterID) || rc.asked[clusterID] || !rc.announced[clusterID] && rc.isRecovering()
}

// isRecovering reports whether a cluster from before the restore has yet to announce.
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

// recoveryDeadline returns until when outstanding announcements prevent final ends and refusals, zero
// if that time is over.
func (rc *recovery) recoveryDeadline() time.Time {
	var until time.Time
	if rc.isRecovering() {
		until = laterOf(rc.s.book.Lineages().Present().At, rc.s.began).Add(recoveryGrace)
	}
	if rc.countUnseen() > 0 {
		until = laterOf(until, rc.listenUntil)
	}
	if !until.After(rc.s.now()) {
		return time.Time{}
	}
	return until
}

// errRecovering refuses a request that cannot be decided before the recovery is over.
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

// checkRequest refuses a request that may have been granted in a lost part of the journal.
func (rc *recovery) checkRequest(q *Request) error {
	if q.Holds != "" && rc.s.book.Reservation(q.Holds) == nil {
		rc.requireAnnouncement(q.Requester)
	}
	if rc.isBlocked(q.Requester) || rc.isClaimed(q) {
		return rc.errRecovering()
	}
	return nil
}
