package broker

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// clusterDue marks an entry of deadlines that speaks of a cluster's freshness; no
// reservation's name has a slash.
const clusterDue = "cluster/"

// deadlines orders names by when time changes them. An entry that was set again
// stays in the heap until it comes up and is then seen to be old.
type deadlines struct {
	heap dueHeap
	// at is in nanoseconds of Unix: there are as many as reservations.
	at map[string]int64
	// wake says that the earliest deadline may have moved.
	wake chan struct{}
}

type dueEntry struct {
	name string
	at   int64
}

type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newDeadlines() deadlines {
	return deadlines{at: map[string]int64{}, wake: make(chan struct{}, 1)}
}

// set moves a name's deadline; the zero time removes it.
func (d *deadlines) set(name string, at time.Time) {
	if at.IsZero() {
		delete(d.at, name)
		return
	}
	nanoseconds := at.UnixNano()
	if d.at[name] == nanoseconds {
		return
	}
	d.at[name] = nanoseconds
	heap.Push(&d.heap, dueEntry{name, nanoseconds})
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// pop returns the names whose deadline has come, and when the next one comes.
func (d *deadlines) pop(now time.Time) (due []string, next time.Time) {
	defer d.shrink()
	for len(d.heap) > 0 {
		first := d.heap[0]
		if current, ok := d.at[first.name]; !ok || current != first.at {
			heap.Pop(&d.heap)
			continue
		}
		if at := time.Unix(0, first.at).UTC(); at.After(now) {
			return due, at
		}
		heap.Pop(&d.heap)
		delete(d.at, first.name)
		due = append(due, first.name)
	}
	return due, time.Time{}
}

// shrink gives back the room of entries that were set again: nearly all are, once.
func (d *deadlines) shrink() {
	if full := cap(d.heap); full > 1024 && len(d.heap) < full-full/3 {
		d.heap = slices.Clone(d.heap)
	}
}

// watchDeadlines carries out what time brings until the term ends.
func (t *term) watchDeadlines(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.due.wake:
		}
		if next, ok := t.expire(); ok {
			timer.Reset(max(next.Sub(t.now()), 0))
		}
	}
}

// expire does what is due now and returns when something is due next.
func (t *term) expire() (time.Time, bool) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.b.term != t {
		return time.Time{}, false
	}
	due, next := t.due.pop(t.now())
	// Where a reservation goes depends on which clusters take new ones at this instant, and
	// on what is held there.
	for _, name := range due {
		if id, ok := strings.CutPrefix(name, clusterDue); ok {
			t.judge(id)
			t.noteSilence(id)
		}
	}
	for _, name := range due {
		if quote, ok := strings.CutPrefix(name, holdDue); ok {
			t.expireHold(quote)
		}
		if id, ok := strings.CutPrefix(name, linksDue); ok {
			t.expireLinks(id)
		}
		if placement, ok := strings.CutPrefix(name, excessDue); ok {
			t.expireExcess(placement)
		}
		if id, ok := strings.CutPrefix(name, keysDue); ok {
			t.expireKeys(id)
		}
		if id, ok := strings.CutPrefix(name, budgetDue); ok {
			t.expireRefusals(id)
		}
	}
	for _, name := range due {
		if !strings.Contains(name, "/") {
			t.expireReservation(name)
		}
	}
	t.wake()
	if len(due) > 0 {
		_, next = t.due.pop(time.Time{})
	}
	return next, !next.IsZero()
}

func (t *term) expireReservation(name string) {
	r := t.state.Reservation(name)
	if r == nil {
		return
	}
	if err := t.carryOut(r); err != nil {
		t.b.opts.Log.Error(err, "a deadline could not be carried out; trying again", "reservation", name)
		t.due.set(name, t.now().Add(reopenDelay))
		return
	}
	if r := t.state.Reservation(name); r != nil {
		t.due.set(name, t.deadline(r))
	}
}

// deadline of a reservation, with the grace that agents get after the broker was
// away: a broker that cannot be reached must not end what runs, nor what was on its way.
//
// No grace goes beyond a duration that was asked for.
func (t *term) deadline(r *ledger.Reservation) time.Time {
	if t.state.Over(r) {
		return r.EndedAt.Add(retain)
	}
	if t.isAbandoned(r) {
		return t.now()
	}
	at := t.deadlineOf(r)
	if by := t.healBy(r); !by.IsZero() && (at.IsZero() || by.Before(at)) {
		return by
	}
	return at
}

// deadlineOf a reservation that is not over, but for its healing.
func (t *term) deadlineOf(r *ledger.Reservation) time.Time {
	at := t.patientDeadline(r)
	if t.isStranger(r) {
		at = t.strangerDeadline(r)
	}
	if r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && r.Until.Before(at) {
		return r.Until
	}
	return at
}

func (t *term) patientDeadline(r *ledger.Reservation) time.Time {
	if t.homeless(r) {
		// Where it has gone may still be announced.
		return later(t.now(), t.settling())
	}
	at, due := t.state.Deadline(r, limits)
	switch {
	case due == ledger.DueNothing:
		return time.Time{}
	case due == ledger.DueQueue:
		return later(at, t.settling())
	case t.isUnheard(r, due):
		at = r.Until
	case due == ledger.DueAcknowledgement:
		return later(at, t.acknowledgeBy(r.Current()))
	case due == ledger.DueReady:
		return later(at, t.began.Add(limits.Ready))
	case due == ledger.DueNotice:
		return later(at, t.began.Add(limits.Acknowledge))
	case due == ledger.DueRecall:
		// It may have been withdrawn meanwhile.
		return later(at, t.began.Add(staleAfter))
	}
	if r.Duration == 0 {
		return later(at, t.began.Add(lease))
	}
	return at
}

// acknowledgeBy is when a provider must have acknowledged what was assigned before this
// term, of which it may not know. One that does not ask is given up when it is stale.
func (t *term) acknowledgeBy(p *ledger.Placement) time.Time {
	if !p.AssignedAt.Time().Before(t.began) {
		return time.Time{}
	}
	if fetched := t.presenceOf(p.Provider).fetched; !fetched.IsZero() {
		return fetched.Add(limits.Acknowledge)
	}
	return t.began.Add(staleAfter)
}

// isUnheard is whether what is overdue may have happened in a part of the journal that
// is lost: who knows has not announced yet.
func (t *term) isUnheard(r *ledger.Reservation, due ledger.Due) bool {
	return due == ledger.DueAcknowledgement && t.awaits(r.Current().Provider) ||
		due == ledger.DueReady && t.awaits(r.Requester)
}

// homeless is a reservation that stands but whose placement does not: the broker
// stopped between giving one up and finding the next.
func (t *term) homeless(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && !r.Stands(r.Current())
}

func (t *term) carryOut(r *ledger.Reservation) error {
	if t.state.Over(r) {
		return t.record(ledger.Event{Change: &ledger.Forget{Names: []string{r.Name}}})
	}
	if t.deadline(r).After(t.now()) {
		return nil
	}
	if t.isAbandoned(r) {
		return t.record(ledger.Event{Change: &ledger.Close{Name: r.Name}})
	}
	if t.isStranger(r) && !t.strangerDeadline(r).After(t.now()) {
		return t.release(r, fmt.Sprintf("nothing was heard of %q, in whose name %s announced it", r.Requester, r.Provider))
	}
	if t.heals(r) {
		return t.heal(r)
	}
	homed := !t.homeless(r)
	switch _, due := t.state.Deadline(r, limits); {
	case due == ledger.DueExpiry && homed, t.isTimeUp(r):
		defer failpoint.Hit(failpoint.BrokerExpired)
		return t.record(ledger.Event{Change: &ledger.End{Name: r.Name, Reason: ledger.EndExpired, Message: "its time is over"}})
	case !homed:
		return t.move(r)
	case due == ledger.DueQueue:
		return t.timeOut(r)
	case due == ledger.DueNotice:
		return t.makeRoom(r)
	case due == ledger.DueRecall:
		return t.giveUp(r, r.Placement(r.CalledBack().Placement), ledger.Recalled)
	case due != ledger.DueNothing:
		return t.giveUp(r, r.Current(), string(due))
	}
	return nil
}

// isTimeUp is whether the duration that was asked for is over, wherever the reservation
// is by then.
func (t *term) isTimeUp(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && !r.Until.After(t.now())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
