package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// clusterDue prefixes deadlines of a cluster's freshness. Only deadlines of reservations have
// no prefix; a reservation's name contains no slash.
const clusterDue = "cluster/"

// deadlines carries out due steps: in the session's goroutine, and in tests.
type deadlines struct {
	s *session
	schedule
	// expirers carry out deadlines other than those of clusters and reservations. The key is
	// the deadline's prefix, the argument the rest of its name.
	expirers map[string]func(id string)
}

func newDeadlines(s *session) deadlines {
	return deadlines{s: s, schedule: newSchedule()}
}

// watchDue carries out due steps until ctx ends.
func (d *deadlines) watchDue(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.wake:
		}
		if next, ok := d.carryOutDue(); ok {
			timer.Reset(max(next.Sub(d.s.now()), 0))
		}
	}
}

// carryOutDue carries out the steps that are due now and returns the next deadline. It does
// nothing once another session has begun.
func (d *deadlines) carryOutDue() (time.Time, bool) {
	d.s.b.mu.Lock()
	defer d.s.b.mu.Unlock()
	if d.s.b.session != d.s {
		return time.Time{}, false
	}
	due, next := d.popDue(d.s.now())
	// Clusters and quotes come before reservations, which may move. Their new provider depends
	// on the clusters that take new reservations now, and on the capacity held there.
	for _, name := range due {
		if id, ok := strings.CutPrefix(name, clusterDue); ok {
			d.s.clusters.updateFreshness(id)
			d.s.clusters.noteSilence(id)
		}
	}
	for _, name := range due {
		prefix, id, _ := strings.Cut(name, "/")
		if expire := d.expirers[prefix+"/"]; expire != nil {
			expire(id)
		}
	}
	for _, name := range due {
		if !strings.Contains(name, "/") {
			d.expireReservation(name)
		}
	}
	d.s.queue.serveWaiting()
	if len(due) > 0 {
		_, next = d.popDue(time.Time{})
	}
	return next, !next.IsZero()
}

func (d *deadlines) expireReservation(name string) {
	r := d.s.book.Reservation(name)
	if r == nil {
		return
	}
	if err := d.carryOut(r); err != nil {
		d.s.log.Error(err, "carrying out a deadline failed, retrying", "reservation", name)
		d.setDeadline(name, d.s.now().Add(reopenDelay))
		return
	}
	if r := d.s.book.Reservation(name); r != nil {
		d.rescheduleReservation(r)
	}
}

// rescheduleReservation recomputes the deadline of a reservation after the reservation, or state it
// depends on, changed.
func (d *deadlines) rescheduleReservation(r *ledger.Reservation) {
	d.setDeadline(r.Name, d.deadlineOf(r))
}

// rescheduleAll recomputes the deadlines of all reservations, for new timeouts.
func (d *deadlines) rescheduleAll() { d.s.book.Reservations(d.rescheduleReservation) }

func (d *deadlines) timeouts() *Timeouts { return &d.s.config().Timeouts }

// of returns when time changes a reservation, zero for never.
//
// Agents get a grace period after the broker was away: an unreachable broker must not end
// running reservations or requests that were on their way. The grace period never extends a
// duration that the requester asked for.
func (d *deadlines) deadlineOf(r *ledger.Reservation) time.Time {
	if r.Over() {
		return r.EndedAt.Add(retain)
	}
	if d.isAbandoned(r) {
		return d.s.now()
	}
	at := d.withoutHealing(r)
	if by := d.s.healing.dueAt(r); !by.IsZero() && (at.IsZero() || by.Before(at)) {
		return by
	}
	return at
}

// withoutHealing returns when time changes a reservation that is not over, leaving out the steps
// of its healing.
func (d *deadlines) withoutHealing(r *ledger.Reservation) time.Time {
	at := d.placementDeadline(r)
	if d.s.recovery.isStranger(r) {
		at = d.s.recovery.strangerDeadline(r)
	}
	if r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && r.Until.Before(at) {
		return r.Until
	}
	return at
}

// placementDeadline returns when time changes a reservation because of its placement, its place in
// the queue or its lease.
func (d *deadlines) placementDeadline(r *ledger.Reservation) time.Time {
	if hasNoStandingPlacement(r) {
		// A provider may still announce that it has the reservation.
		return laterOf(d.s.now(), d.s.recovery.recoveryDeadline())
	}
	at, due := d.s.book.Deadline(r, d.timeouts().Placement)
	switch {
	case due == ledger.DueNothing:
		return time.Time{}
	case due == ledger.DueQueue:
		return laterOf(at, d.s.recovery.recoveryDeadline())
	case d.awaitsReport(r, due):
		at = r.Until
	case due == ledger.DueAcknowledgement:
		return laterOf(at, d.acknowledgeBy(r.Current()))
	case due == ledger.DueReady, due == ledger.DueNetwork:
		return laterOf(at, d.s.began.Add(d.timeouts().Placement.Ready))
	case due == ledger.DueNotice:
		return laterOf(at, d.s.began.Add(d.timeouts().Placement.Acknowledge))
	case due == ledger.DueRecall:
		// The provider may have withdrawn the recall meanwhile.
		return laterOf(at, d.s.began.Add(d.timeouts().Silence))
	}
	if r.Duration == 0 {
		return laterOf(at, d.s.began.Add(lease))
	}
	return at
}

// connectBy returns when the node of a placement must be Ready whose network is being set up, zero
// for other placements.
func (s *session) connectBy(r *ledger.Reservation, p *ledger.Placement) time.Time {
	if !r.Stands(p) || !p.IsConnecting() {
		return time.Time{}
	}
	return s.book.ConnectBy(r, p, s.config().Timeouts.Placement)
}

// acknowledgeBy returns the deadline for acknowledging a placement of an earlier term, which
// its provider may not have received. A provider that never asks for its instructions loses the
// placement when it becomes stale.
func (d *deadlines) acknowledgeBy(p *ledger.Placement) time.Time {
	if !p.AssignedAt.Time().Before(d.s.began) {
		return time.Time{}
	}
	if fetched := d.s.clusters.presenceOf(p.Provider).fetched; !fetched.IsZero() {
		return fetched.Add(d.timeouts().Placement.Acknowledge)
	}
	return d.s.began.Add(d.timeouts().Silence)
}

// awaitsReport reports whether an overdue step may have happened in a lost part of the journal.
// In that case the responsible agent has not announced its holdings yet.
func (d *deadlines) awaitsReport(r *ledger.Reservation, due ledger.Due) bool {
	return due == ledger.DueAcknowledgement && d.s.recovery.isBlocked(r.Current().Provider) ||
		(due == ledger.DueReady || due == ledger.DueNetwork) && d.s.recovery.isBlocked(r.Requester)
}

// hasNoStandingPlacement reports whether a reservation stands but its placement does not: the
// broker stopped between giving up one placement and granting the next.
func hasNoStandingPlacement(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && !r.Stands(r.Current())
}

// carryOut takes the due step for a reservation.
func (d *deadlines) carryOut(r *ledger.Reservation) error {
	if r.Over() {
		return d.s.record(ledger.Event{Change: &ledger.Forget{Names: []string{r.Name}}})
	}
	if d.deadlineOf(r).After(d.s.now()) {
		return nil
	}
	if d.isAbandoned(r) {
		return d.s.record(ledger.Event{Change: &ledger.Close{Name: r.Name}})
	}
	if d.s.recovery.isStranger(r) && !d.s.recovery.strangerDeadline(r).After(d.s.now()) {
		return d.s.reservations.releaseReservation(r, fmt.Sprintf("%q, in whose name %s announced it, did not claim it", r.Requester, r.Provider))
	}
	if d.s.healing.isDue(r) {
		return d.s.healing.advanceHealing(r)
	}
	hasPlacement := !hasNoStandingPlacement(r)
	switch _, due := d.s.book.Deadline(r, d.timeouts().Placement); {
	case due == ledger.DueExpiry && hasPlacement, d.isTimeUp(r):
		defer failpoint.Hit(failpoint.BrokerExpired)
		return d.s.record(ledger.Event{Change: &ledger.End{Name: r.Name, Reason: ledger.EndExpired, Message: "its duration is over"}})
	case !hasPlacement:
		return d.s.reservations.replacePlacement(r)
	case due == ledger.DueQueue:
		return d.s.queue.timeOut(r)
	case due == ledger.DueNotice:
		return d.s.preemption.makeRoom(r)
	case due == ledger.DueRecall:
		return d.s.reservations.withdrawPlacement(r, r.Placement(r.CalledBack().Placement), ledger.Recalled)
	case due != ledger.DueNothing:
		return d.s.reservations.withdrawPlacement(r, r.Current(), string(due))
	}
	return nil
}

// isTimeUp reports whether the requested duration is over, in whatever state the reservation
// is.
func (d *deadlines) isTimeUp(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && !r.Until.After(d.s.now())
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (d *deadlines) reservationChanged(r *ledger.Reservation) { d.rescheduleReservation(r) }

// isAbandoned reports whether the end of a reservation waits only for its requester's agent,
// which has been silent for Config.StaleThreshold.
func (d *deadlines) isAbandoned(r *ledger.Reservation) bool {
	return r.Closable() && d.s.clusters.presenceOf(r.Requester).phase == ClusterInactive
}

// closeAbandoned schedules the end of reservations that wait for a silent cluster.
func (d *deadlines) closeAbandoned(clusterID string) {
	for _, r := range d.s.news.reservationsOf(clusterID) {
		if d.isAbandoned(r) {
			d.setDeadline(r.Name, d.s.now())
		}
	}
}
