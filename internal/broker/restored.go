package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// recovery is what a term knows of clusters that know more than the book: because
// etcd was restored from an older state, or the journal was begun anew.
//
// That a cluster has announced is in the ledger; what it claimed as a requester is
// kept here until its providers have announced too. So as long as one is awaited,
// every cluster announces once in every term.
type recovery struct {
	// waiting are the clusters that take nothing new before they have announced.
	waiting map[string]bool
	// told are those that have announced in this term.
	told map[string]bool
	// claims are what they said they had asked for.
	claims map[string][]claim
	// void are placements that were claimed and that no provider knows of.
	void map[string][]ledger.PlacementRef
}

func newRecovery() recovery {
	return recovery{
		waiting: map[string]bool{}, told: map[string]bool{},
		claims: map[string][]claim{}, void: map[string][]ledger.PlacementRef{},
	}
}

const (
	// patience is how long the absent hold up decisions about others: after that they
	// are as stale as anybody who is silent.
	patience = staleAfter
	// recoveryRetry is when to ask again what cannot be decided before clusters have
	// announced.
	recoveryRetry = 2 * time.Second
)

// bySelf is who noticed, where no cluster had to tell.
const bySelf = "the broker"

// Witness notes the cursor that a cluster shows with a call. One that lies ahead of
// the journal means that the broker was restored from an older state.
func (b *Broker) Witness(clusterID, cursor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, err := b.current(); err == nil {
		t.witness(clusterID, cursor)
	}
}

func (t *term) witness(clusterID, cursor string) {
	switch meant, position := read(cursor, t.state); meant {
	case strange:
		t.suspect(clusterID)
	case lost:
		t.fork(position, clusterID)
	case followed:
	}
}

// fork begins another lineage: everybody announces what they have.
func (t *term) fork(seen uint64, by string) {
	head := t.state.Position()
	if err := t.record(ledger.Event{Lineage: &ledger.Lineage{ID: lineageID(), Seen: seen, By: by}}); err != nil {
		t.b.opts.Log.Error(err, "that the journal was restored could not be noted; trying again when the next cluster shows it")
		return
	}
	t.recovery = newRecovery()
	t.await()
	t.b.opts.Log.Error(nil, "journal was restored from an older state: nothing is granted on a cluster before its agent has announced what it holds",
		"position", head, "seen", seen, "by", by, "clusters", len(t.recovery.waiting))
	t.b.wakeAll()
}

// await derives from the ledger who has yet to announce.
func (t *term) await() {
	t.state.Clusters(func(c *ledger.Cluster) {
		if t.state.Awaits(c.ClusterID) {
			t.hold(c.ClusterID)
		}
	})
}

// hold grants nothing on a cluster until it has announced.
func (t *term) hold(clusterID string) {
	t.recovery.waiting[clusterID] = true
	if t.state.Cluster(clusterID) != nil {
		t.judge(clusterID)
		t.b.feed.cluster(clusterID)
	}
}

// suspect has one cluster announce that knows something the book does not, unless it
// has done so before.
func (t *term) suspect(clusterID string) {
	announced := t.recovery.told[clusterID] || t.state.Restored() && t.state.HasAgent(clusterID) && !t.state.Awaits(clusterID)
	if announced || t.recovery.waiting[clusterID] {
		return
	}
	t.b.opts.Log.Info("cluster knows of what the journal does not: asking it what it holds", "cluster", clusterID)
	t.hold(clusterID)
	t.b.wakeAll()
}

// suspectUsage is suspect for a provider that keeps capacity for what is not in the
// book.
func (t *term) suspectUsage(clusterID string, usage []v1.Usage) {
	for _, u := range usage {
		r := t.state.Reservation(u.Reservation)
		if r == nil || r.Adoptable(u.Placement) {
			t.suspect(clusterID)
			return
		}
	}
}

// awaits is whether a cluster has yet to announce what it has.
func (t *term) awaits(clusterID string) bool { return t.recovery.waiting[clusterID] }

// wants is whether a cluster is to announce now.
func (t *term) wants(clusterID string) bool {
	return t.awaits(clusterID) || !t.recovery.told[clusterID] && t.recovering()
}

// recovering is whether a cluster that was there before the journal was restored has
// yet to announce.
func (t *term) recovering() bool {
	if !t.state.Restored() {
		return false
	}
	for id := range t.recovery.waiting {
		if t.state.Awaits(id) {
			return true
		}
	}
	return false
}

// settling is until when nothing is ended or refused for good because of what may
// still be announced; zero if that is over.
func (t *term) settling() time.Time {
	if !t.recovering() {
		return time.Time{}
	}
	until := later(t.state.Branch().At, t.began).Add(patience)
	if !until.After(t.now()) {
		return time.Time{}
	}
	return until
}

// errRecovering refuses what cannot be decided yet.
func (t *term) errRecovering() *fault.Error {
	e := fault.New(fault.Recovering, "%s; nothing was changed, try again", t.recoveryMessage())
	e.RetryAfter = recoveryRetry
	return e
}

func (t *term) recoveryMessage() string {
	if !t.recovering() {
		return "a cluster knows of what the journal does not: waiting until it has announced what it holds"
	}
	waiting, all := 0, 0
	t.state.Clusters(func(c *ledger.Cluster) {
		if c.Agent {
			all++
		}
		if t.state.Awaits(c.ClusterID) {
			waiting++
		}
	})
	b := t.state.Branch()
	return fmt.Sprintf("journal restored from an older state at position %d (agents have seen %d): waiting for %d of %d clusters to announce what they hold",
		b.Since-1, b.Seen, waiting, all)
}

// checkRecovered refuses a request that may have been granted in the part of the
// journal that is lost.
func (t *term) checkRecovered(q *Request) error {
	if q.Holds != "" && t.state.Reservation(q.Holds) == nil {
		t.suspect(q.Requester)
	}
	if t.awaits(q.Requester) || t.isClaimed(q) {
		return t.errRecovering()
	}
	return nil
}
