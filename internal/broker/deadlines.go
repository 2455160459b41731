package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// clusterDue is the prefix of the names of the deadlines at which the freshness of a cluster changes. Every
// deadline has a prefix, except those of reservations: the name of a reservation contains no slash.
const clusterDue = "cluster/"

// deadlines carries out steps that are due: watchDue does so in a goroutine of the session, tests
// call carryOutDue.
type deadlines struct {
	s *session
	schedule
	// expirers carry out the deadlines that belong to neither a cluster nor a reservation. The key is the prefix of
	// the deadline's name, and id is the rest of the name.
	expirers map[string]func(id string)
}

func newDeadlines(s *session) deadlines {
	return deadlines{s: s, schedule: newSchedule()}
}

// watchDue carries out steps when they are due, until ctx ends.
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

// carryOutDue carries out the steps that are due now. It returns the next deadline, and false if
// there is none. It does nothing if another session has begun.
func (d *deadlines) carryOutDue() (time.Time, bool) {
	d.s.b.mu.Lock()
	defer d.s.b.mu.Unlock()
	if d.s.b.session != d.s {
		return time.Time{}, false
	}
	due, next := d.popDue(d.s.now())
	// Clusters and quotes come before reservations, because reservations may move: their new provider depends on
	// which clusters can get new reservations, and on the capacity that quotes hold there.
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

// rescheduleReservation recomputes the deadline of a reservation. It is called after a change of the reservation, or of
// other state on which the deadline depends.
func (d *deadlines) rescheduleReservation(r *ledger.Reservation) {
	d.setDeadline(r.Name, d.deadlineOf(r))
}

// rescheduleAll recomputes the deadlines of all reservations after the timeouts have changed.
func (d *deadlines) rescheduleAll() { d.s.book.Reservations(d.rescheduleReservation) }

func (d *deadlines) timeouts() *Timeouts { return &d.s.config().Timeouts }

// deadlineOf returns when the next step is due for a reservation if nothing else happens before, or zero if no step
// will be due.
//
// After the broker was away, agents get some additional time, so that the outage does not end
// running reservations or requests that were on their way. The additional time never extends a
// duration that the requester asked for.
func (d *deadlines) deadlineOf(r *ledger.Reservation) time.Time {
	if r.Over() {
		return r.EndedAt.Add(retain)
	}
	if d.isAbandoned(r) {
		return d.s.now()
	}
	at := d.withoutHealing(r)
	if by := d.s.healing.DueAt(r); !by.IsZero() && (at.IsZero() || by.Before(at)) {
		return by
	}
	return at
}

// withoutHealing returns what deadlineOf would return without the steps of healing. The reservation
// must not be over.
func (d *deadlines) withoutHealing(r *ledger.Reservation) time.Time {
	at, _ := d.placementDeadline(r)
	if d.s.recovery.IsStranger(r) {
		at = d.s.recovery.StrangerDeadline(r)
	}
	if r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && r.Until.Before(at) {
		return r.Until
	}
	return at
}

// placementDeadline returns when a step is due because of the reservation's placement, its wait in
// the queue or its lease, and which step. If the reservation needs a placement and has none, it
// returns DueNothing with the time at which to find one.
func (d *deadlines) placementDeadline(r *ledger.Reservation) (time.Time, ledger.Due) {
	if hasNoStandingPlacement(r) {
		// During a recovery, a provider may still announce that it serves the reservation.
		return term.Later(d.s.now(), d.s.recovery.SettledAt()), ledger.DueNothing
	}
	return d.s.book.Deadline(r, d.timeouts().Placement, func(at time.Time, due ledger.Due) time.Time { return d.postpone(r, at, due) })
}

// postpone returns the time to which a deadline of a reservation moves because agents could not reach the broker before
// this term, or because the queue is paused. It returns zero for a deadline that must be ignored for now.
func (d *deadlines) postpone(r *ledger.Reservation, at time.Time, due ledger.Due) time.Time {
	switch due {
	case ledger.DueQueue:
		if d.s.queue.isPaused() {
			return time.Time{}
		}
		return term.Later(at, d.s.recovery.SettledAt())
	case ledger.DueAcknowledgement:
		if d.s.recovery.IsBlocked(r.Current().Provider) {
			return time.Time{} // the journal may have lost the provider's answer, which the provider will announce
		}
		return term.Later(at, d.acknowledgeBy(r.Current()))
	case ledger.DueReady, ledger.DueNetwork:
		if d.s.recovery.IsBlocked(r.Requester) {
			return time.Time{} // the journal may have lost the requester's report, which the requester will announce
		}
		return term.Later(at, d.s.began.Add(d.timeouts().Placement.Ready))
	case ledger.DueNotice:
		return term.Later(at, d.s.began.Add(d.timeouts().Placement.Acknowledge))
	case ledger.DueRecall:
		// The provider may have withdrawn the recall while the broker was away.
		return term.Later(at, d.s.began.Add(d.timeouts().Silence))
	case ledger.DueExpiry:
		if r.Duration == 0 {
			return term.Later(at, d.s.began.Add(lease))
		}
	}
	return at
}

// connectBy returns the time by which the node of a placement must be Ready, if the network for it is
// still being set up. It returns zero for any other placement, and for one that no longer stands.
func (s *session) connectBy(r *ledger.Reservation, p *ledger.Placement) time.Time {
	if !r.Stands(p) || !p.IsConnecting() {
		return time.Time{}
	}
	return s.book.ConnectBy(r, p, s.config().Timeouts.Placement)
}

// acknowledgeBy returns a later deadline for acknowledging a placement that was granted in an earlier term, because
// the provider may not have learned of the placement yet. It returns zero for a placement that was granted in this
// term. A provider that does not fetch its instructions loses the placement once it has been silent too long.
func (d *deadlines) acknowledgeBy(p *ledger.Placement) time.Time {
	if !p.AssignedAt.Time().Before(d.s.began) {
		return time.Time{}
	}
	if fetched := d.s.clusters.presenceOf(p.Provider).fetched; !fetched.IsZero() {
		return fetched.Add(d.timeouts().Placement.Acknowledge)
	}
	return d.s.began.Add(d.timeouts().Silence)
}

// hasNoStandingPlacement reports whether a reservation needs a placement and has none. That happens
// if the broker stopped after it gave up one placement and before it granted the next.
func hasNoStandingPlacement(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && !r.Stands(r.Current())
}

// carryOut takes the step that is due for a reservation, if any.
func (d *deadlines) carryOut(r *ledger.Reservation) error {
	if r.Over() {
		return d.s.record(ledger.Event{Change: &ledger.Forget{Names: []string{r.Name}}})
	}
	if at := d.deadlineOf(r); at.IsZero() || at.After(d.s.now()) {
		return nil
	}
	if d.isAbandoned(r) {
		return d.s.record(ledger.Event{Change: &ledger.Close{Name: r.Name}})
	}
	if d.s.recovery.IsStranger(r) && !d.s.recovery.StrangerDeadline(r).After(d.s.now()) {
		return d.s.reservations.releaseReservation(r, ledger.Recovery, fmt.Sprintf("%q, in whose name %s announced it, did not claim it", r.Requester, r.Provider))
	}
	if d.isHealingDue(r) {
		return d.s.healing.Advance(r)
	}
	hasPlacement := !hasNoStandingPlacement(r)
	switch _, due := d.placementDeadline(r); {
	case due == ledger.DueExpiry && hasPlacement, d.isTimeUp(r):
		defer failpoint.Hit(failpoint.BrokerExpired)
		return d.s.record(ledger.Event{By: ledger.Deadlines, Change: &ledger.End{Name: r.Name, Reason: ledger.EndExpired, Message: "its duration is over"}})
	case !hasPlacement:
		return d.s.reservations.replacePlacement(r)
	case due == ledger.DueQueue:
		return d.s.queue.timeOut(r)
	case due == ledger.DueNotice:
		return d.s.preemption.makeRoom(r)
	case due == ledger.DueRecall:
		recalled := r.CalledBack()
		return d.s.reservations.withdrawPlacement(r, r.Placement(recalled.Placement), recalled.Reason())
	case due != ledger.DueNothing:
		return d.s.reservations.withdrawPlacement(r, r.Current(), string(due))
	}
	return nil
}

// isHealingDue reports whether a step of healing is due for the reservation now, and no step of any
// other kind.
func (d *deadlines) isHealingDue(r *ledger.Reservation) bool {
	by, otherwise := d.s.healing.DueAt(r), d.withoutHealing(r)
	return !by.IsZero() && !by.After(d.s.now()) && (otherwise.IsZero() || otherwise.After(d.s.now()))
}

// isTimeUp reports whether the requested duration of a reservation is over.
func (d *deadlines) isTimeUp(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && !r.Until.After(d.s.now())
}

func (d *deadlines) reservationChanged(r *ledger.Reservation) { d.rescheduleReservation(r) }

// isAbandoned reports whether an ended reservation waits only for its requester's agent, and that
// agent has been silent for Config.StaleThreshold.
func (d *deadlines) isAbandoned(r *ledger.Reservation) bool {
	return r.Closable() && d.s.clusters.presenceOf(r.Requester).phase == ClusterInactive
}

// closeAbandoned makes each reservation of a cluster due now if isAbandoned is true for the reservation.
func (d *deadlines) closeAbandoned(clusterID string) {
	for _, r := range d.s.news.reservationsOf(clusterID) {
		if d.isAbandoned(r) {
			d.setDeadline(r.Name, d.s.now())
		}
	}
}
