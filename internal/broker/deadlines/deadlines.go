// Package deadlines carries out the steps of reservations that are due because time has passed.
package deadlines

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// Session is what the deadlines need of the broker's session.
type Session interface {
	term.Term
	Timeouts() *term.Timeouts
	IsPaused() bool
	// FetchedAt returns when a cluster first asked for its instructions in this term, zero if it has not.
	FetchedAt(clusterID string) time.Time
	PhaseOf(clusterID string) term.ClusterPhase
	ReservationsOf(clusterID string) []*ledger.Reservation
	// What a recovery from a restored journal postpones. SettledAt is zero if there is none. A stranger is
	// a reservation that its requester must claim until StrangerDeadline.
	SettledAt() time.Time
	IsBlocked(clusterID string) bool
	IsStranger(r *ledger.Reservation) bool
	StrangerDeadline(r *ledger.Reservation) time.Time
	// HealingDueAt returns when the next step of a reservation's healing is due, zero if none is.
	HealingDueAt(r *ledger.Reservation) time.Time
	// The steps.
	AdvanceHealing(r *ledger.Reservation) error
	TimeOut(r *ledger.Reservation) error
	EndReservation(r *ledger.Reservation, by ledger.Actor, message string) error
	ReplacePlacement(r *ledger.Reservation) error
	WithdrawPlacement(r *ledger.Reservation, p *ledger.Placement, reason string) error
}

// Deadlines computes when the next step of each reservation is due. It has no state.
type Deadlines struct{ s Session }

// New returns the Deadlines of a session.
func New(s Session) *Deadlines { return &Deadlines{s} }

// ExpireReservation takes the step that is due for a reservation, and schedules the next one.
func (d *Deadlines) ExpireReservation(name string) {
	r := d.s.Book().Reservation(name)
	if r == nil {
		return
	}
	if err := d.carryOutStep(r); err != nil {
		d.s.Log().Error(err, "carrying out a deadline failed, retrying", "reservation", name)
		d.s.SetDeadline(name, d.s.Now().Add(term.RetryDelay))
		return
	}
	if r := d.s.Book().Reservation(name); r != nil {
		d.Reschedule(r)
	}
}

// Reschedule recomputes the deadline of a reservation. It is called after a change of the reservation, or of
// other state on which the deadline depends.
func (d *Deadlines) Reschedule(r *ledger.Reservation) {
	d.s.SetDeadline(r.Name, d.deadlineOf(r))
}

// RescheduleReservations recomputes the deadlines of all reservations after the timeouts have changed.
func (d *Deadlines) RescheduleReservations() { d.s.Book().Reservations(d.Reschedule) }

// deadlineOf returns when the next step is due for a reservation if nothing else happens before, or zero if no step
// will be due.
//
// After the broker was away, agents get some additional time, so that the outage does not end
// running reservations or requests that were on their way. The additional time never extends a
// duration that the requester asked for.
func (d *Deadlines) deadlineOf(r *ledger.Reservation) time.Time {
	if r.Over() {
		return r.EndedAt.Add(term.Retain)
	}
	if d.isAbandoned(r) {
		return d.s.Now()
	}
	at := d.deadlineWithoutHealing(r)
	if by := d.s.HealingDueAt(r); !by.IsZero() && (at.IsZero() || by.Before(at)) {
		return by
	}
	return at
}

// deadlineWithoutHealing returns what deadlineOf would return without the steps of healing. The reservation
// must not be over.
func (d *Deadlines) deadlineWithoutHealing(r *ledger.Reservation) time.Time {
	at, _ := d.placementDeadline(r)
	if d.s.IsStranger(r) {
		at = d.s.StrangerDeadline(r)
	}
	if r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && r.Until.Before(at) {
		return r.Until
	}
	return at
}

// placementDeadline returns when a step is due because of the reservation's placement, its wait in
// the queue or its lease, and which step. If the reservation needs a placement and has none, it
// returns DueNothing with the time at which to find one.
func (d *Deadlines) placementDeadline(r *ledger.Reservation) (time.Time, ledger.Due) {
	if term.HasNoStandingPlacement(r) {
		// During a recovery, a provider may still announce that it serves the reservation.
		return term.Later(d.s.Now(), d.s.SettledAt()), ledger.DueNothing
	}
	return d.s.Book().Deadline(r, d.s.Timeouts().Placement, func(at time.Time, due ledger.Due) time.Time { return d.postponeDeadline(r, at, due) })
}

// postponeDeadline returns the time to which a deadline of a reservation moves because agents could not reach the broker before
// this term, or because the queue is paused. It returns zero for a deadline that must be ignored for now.
func (d *Deadlines) postponeDeadline(r *ledger.Reservation, at time.Time, due ledger.Due) time.Time {
	switch due {
	case ledger.DueQueue:
		if d.s.IsPaused() {
			return time.Time{}
		}
		return term.Later(at, d.s.SettledAt())
	case ledger.DueAcknowledgement, ledger.DueNodes:
		if d.s.IsBlocked(r.Current().Provider) {
			return time.Time{} // the journal may have lost the provider's answer, which the provider will announce
		}
		return term.Later(at, d.acknowledgeBy(r.Current()))
	case ledger.DueReady, ledger.DueNetwork:
		if d.s.IsBlocked(r.Requester) {
			return time.Time{} // the journal may have lost the requester's report, which the requester will announce
		}
		return term.Later(at, d.s.Began().Add(d.s.Timeouts().Placement.Ready))
	case ledger.DueNotice:
		return term.Later(at, d.s.Began().Add(d.s.Timeouts().Placement.Acknowledge))
	case ledger.DueRecall:
		// The provider may have withdrawn the recall while the broker was away.
		return term.Later(at, d.s.Began().Add(d.s.Timeouts().Silence))
	case ledger.DueExpiry:
		if r.Duration == 0 {
			return term.Later(at, d.s.Began().Add(term.Lease))
		}
	}
	return at
}

// acknowledgeBy returns a later deadline for acknowledging a placement that was granted in an earlier term, because
// the provider may not have learned of the placement yet. It returns zero for a placement that was granted in this
// term. A provider that does not fetch its instructions loses the placement once it has been silent too long.
func (d *Deadlines) acknowledgeBy(p *ledger.Placement) time.Time {
	if !p.AssignedAt.Time().Before(d.s.Began()) {
		return time.Time{}
	}
	if fetched := d.s.FetchedAt(p.Provider); !fetched.IsZero() {
		return fetched.Add(d.s.Timeouts().Placement.Acknowledge)
	}
	return d.s.Began().Add(d.s.Timeouts().Silence)
}

func (d *Deadlines) carryOutStep(r *ledger.Reservation) error {
	if r.Over() {
		return d.s.Record(ledger.Event{Change: &ledger.Forget{Names: []string{r.Name}}})
	}
	if at := d.deadlineOf(r); at.IsZero() || at.After(d.s.Now()) {
		return nil
	}
	if d.isAbandoned(r) {
		return d.s.Record(ledger.Event{Change: &ledger.Close{Name: r.Name}})
	}
	if d.s.IsStranger(r) && !d.s.StrangerDeadline(r).After(d.s.Now()) {
		return d.s.EndReservation(r, ledger.Recovery, fmt.Sprintf("%q, in whose name %s announced it, did not claim it", r.Requester, r.Provider))
	}
	if d.isHealingDue(r) {
		return d.s.AdvanceHealing(r)
	}
	hasPlacement := !term.HasNoStandingPlacement(r)
	switch _, due := d.placementDeadline(r); {
	case due == ledger.DueExpiry && hasPlacement, d.isTimeUp(r):
		defer failpoint.Hit(failpoint.BrokerExpired)
		return d.s.Record(ledger.Event{By: ledger.Deadlines, Change: &ledger.End{Name: r.Name, Reason: ledger.EndExpired, Message: "its duration is over"}})
	case !hasPlacement:
		return d.s.ReplacePlacement(r)
	case due == ledger.DueQueue:
		return d.s.TimeOut(r)
	case due == ledger.DueNotice:
		return d.s.WithdrawPlacement(r, r.Placement(r.Notice.Placement), ledger.Preempted)
	case due == ledger.DueRecall:
		recalled := r.CalledBack()
		return d.s.WithdrawPlacement(r, r.Placement(recalled.Placement), recalled.Reason())
	case due != ledger.DueNothing:
		return d.s.WithdrawPlacement(r, r.Current(), string(due))
	}
	return nil
}

func (d *Deadlines) isHealingDue(r *ledger.Reservation) bool {
	by, otherwise := d.s.HealingDueAt(r), d.deadlineWithoutHealing(r)
	return !by.IsZero() && !by.After(d.s.Now()) && (otherwise.IsZero() || otherwise.After(d.s.Now()))
}

func (d *Deadlines) isTimeUp(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && !r.Until.After(d.s.Now())
}

// isAbandoned reports whether an ended reservation waits only for its requester's agent, and that
// agent has been silent for Config.StaleThreshold.
func (d *Deadlines) isAbandoned(r *ledger.Reservation) bool {
	return r.Closable() && d.s.PhaseOf(r.Requester) == term.Inactive
}

// CloseAbandoned makes each reservation of a cluster due now if isAbandoned is true for the reservation.
func (d *Deadlines) CloseAbandoned(clusterID string) {
	for _, r := range d.s.ReservationsOf(clusterID) {
		if d.isAbandoned(r) {
			d.s.SetDeadline(r.Name, d.s.Now())
		}
	}
}
