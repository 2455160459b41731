package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
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
	// asked are requesters that are to announce, as a provider has announced something in
	// their names.
	asked map[string]bool
	// told are those that have announced in this term.
	told map[string]bool
	// claims are what they said they had asked for.
	claims map[string][]claim
	// void are placements that were claimed and that no provider knows of.
	void map[string][]ledger.PlacementRef
}

func newRecovery() recovery {
	return recovery{
		waiting: map[string]bool{}, asked: map[string]bool{}, told: map[string]bool{},
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
	// quiet is how long a journal may have had no events to be taken for the present one
	// by a process that knows nothing else: a restored one is older.
	quiet = 15 * time.Second
	// listening is how long such a process grants nothing on clusters that it did not
	// hear of: they may know of what the journal does not.
	listening = 10 * time.Second
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
	if cursor == "" {
		return // it knows of nothing yet
	}
	switch meant, position := read(cursor, t.state); meant {
	case strange:
		t.suspect(clusterID)
	case lost:
		t.fork(position, clusterID)
	case followed:
	}
	t.meet(clusterID)
}

// listen has the term wait for clusters to be heard where nothing tells that the
// journal is the present one.
func (t *term) listen(newest time.Time) {
	if t.b.newest == "" && t.began.Sub(newest) > quiet {
		t.listenUntil = t.began.Add(listening)
		t.state.Clusters(func(c *ledger.Cluster) { t.judge(c.ClusterID) })
	}
}

// meet notes that a cluster has shown what it knows.
func (t *term) meet(clusterID string) {
	p := t.presenceOf(clusterID)
	if p.met {
		return
	}
	p.met = true
	if t.state.Cluster(clusterID) != nil {
		t.judge(clusterID)
	}
}

// unmet is whether a cluster may still know of what the journal does not.
func (t *term) unmet(c *ledger.Cluster) bool {
	return c.Agent && t.now().Before(t.listenUntil) && !t.presenceOf(c.ClusterID).met
}

func (t *term) countUnmet() int {
	n := 0
	if t.now().Before(t.listenUntil) {
		t.state.Clusters(func(c *ledger.Cluster) {
			if t.unmet(c) {
				n++
			}
		})
	}
	return n
}

// fork begins another lineage: everybody announces what they have.
func (t *term) fork(seen uint64, by string) {
	head := t.state.Position()
	if err := t.record(ledger.Event{Change: &ledger.Lineage{ID: lineageID(), Seen: seen, By: by}}); err != nil {
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
	return t.awaits(clusterID) || t.recovery.asked[clusterID] || !t.recovery.told[clusterID] && t.recovering()
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
	var until time.Time
	if t.recovering() {
		until = later(t.state.Branch().At, t.began).Add(patience)
	}
	if t.countUnmet() > 0 {
		until = later(until, t.listenUntil)
	}
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
	if unmet := t.countUnmet(); unmet > 0 && !t.recovering() {
		return fmt.Sprintf("the broker was away for a while: waiting to hear from %d clusters whether its journal is the present one", unmet)
	}
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
