package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

func (s *session) expireReservation(name string) {
	r := s.book.Reservation(name)
	if r == nil {
		return
	}
	if err := s.carryOut(r); err != nil {
		s.log.Error(err, "carrying out a deadline failed, retrying", "reservation", name)
		s.SetDeadline(name, s.Now().Add(reopenDelay))
		return
	}
	if r := s.book.Reservation(name); r != nil {
		s.Reschedule(r)
	}
}

// Reschedule recomputes the deadline of a reservation. It is called after a change of the reservation, or of
// other state on which the deadline depends.
func (s *session) Reschedule(r *ledger.Reservation) {
	s.SetDeadline(r.Name, s.deadlineOf(r))
}

// rescheduleAll recomputes the deadlines of all reservations after the timeouts have changed.
func (s *session) rescheduleAll() { s.book.Reservations(s.Reschedule) }

// deadlineOf returns when the next step is due for a reservation if nothing else happens before, or zero if no step
// will be due.
//
// After the broker was away, agents get some additional time, so that the outage does not end
// running reservations or requests that were on their way. The additional time never extends a
// duration that the requester asked for.
func (s *session) deadlineOf(r *ledger.Reservation) time.Time {
	if r.Over() {
		return r.EndedAt.Add(retain)
	}
	if s.isAbandoned(r) {
		return s.Now()
	}
	at := s.withoutHealing(r)
	if by := s.Healing.DueAt(r); !by.IsZero() && (at.IsZero() || by.Before(at)) {
		return by
	}
	return at
}

// withoutHealing returns what deadlineOf would return without the steps of healing. The reservation
// must not be over.
func (s *session) withoutHealing(r *ledger.Reservation) time.Time {
	at, _ := s.placementDeadline(r)
	if s.Recovery.IsStranger(r) {
		at = s.Recovery.StrangerDeadline(r)
	}
	if r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && r.Until.Before(at) {
		return r.Until
	}
	return at
}

// placementDeadline returns when a step is due because of the reservation's placement, its wait in
// the queue or its lease, and which step. If the reservation needs a placement and has none, it
// returns DueNothing with the time at which to find one.
func (s *session) placementDeadline(r *ledger.Reservation) (time.Time, ledger.Due) {
	if hasNoStandingPlacement(r) {
		// During a recovery, a provider may still announce that it serves the reservation.
		return term.Later(s.Now(), s.Recovery.SettledAt()), ledger.DueNothing
	}
	return s.book.Deadline(r, s.Timeouts().Placement, func(at time.Time, due ledger.Due) time.Time { return s.postpone(r, at, due) })
}

// postpone returns the time to which a deadline of a reservation moves because agents could not reach the broker before
// this term, or because the queue is paused. It returns zero for a deadline that must be ignored for now.
func (s *session) postpone(r *ledger.Reservation, at time.Time, due ledger.Due) time.Time {
	switch due {
	case ledger.DueQueue:
		if s.isPaused() {
			return time.Time{}
		}
		return term.Later(at, s.Recovery.SettledAt())
	case ledger.DueAcknowledgement:
		if s.Recovery.IsBlocked(r.Current().Provider) {
			return time.Time{} // the journal may have lost the provider's answer, which the provider will announce
		}
		return term.Later(at, s.acknowledgeBy(r.Current()))
	case ledger.DueReady, ledger.DueNetwork:
		if s.Recovery.IsBlocked(r.Requester) {
			return time.Time{} // the journal may have lost the requester's report, which the requester will announce
		}
		return term.Later(at, s.began.Add(s.Timeouts().Placement.Ready))
	case ledger.DueNotice:
		return term.Later(at, s.began.Add(s.Timeouts().Placement.Acknowledge))
	case ledger.DueRecall:
		// The provider may have withdrawn the recall while the broker was away.
		return term.Later(at, s.began.Add(s.Timeouts().Silence))
	case ledger.DueExpiry:
		if r.Duration == 0 {
			return term.Later(at, s.began.Add(lease))
		}
	}
	return at
}

// acknowledgeBy returns a later deadline for acknowledging a placement that was granted in an earlier term, because
// the provider may not have learned of the placement yet. It returns zero for a placement that was granted in this
// term. A provider that does not fetch its instructions loses the placement once it has been silent too long.
func (s *session) acknowledgeBy(p *ledger.Placement) time.Time {
	if !p.AssignedAt.Time().Before(s.began) {
		return time.Time{}
	}
	if fetched := s.Presence(p.Provider).Fetched; !fetched.IsZero() {
		return fetched.Add(s.Timeouts().Placement.Acknowledge)
	}
	return s.began.Add(s.Timeouts().Silence)
}

// hasNoStandingPlacement reports whether a reservation needs a placement and has none. That happens
// if the broker stopped after it gave up one placement and before it granted the next.
func hasNoStandingPlacement(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && !r.Stands(r.Current())
}

// carryOut takes the step that is due for a reservation, if any.
func (s *session) carryOut(r *ledger.Reservation) error {
	if r.Over() {
		return s.Record(ledger.Event{Change: &ledger.Forget{Names: []string{r.Name}}})
	}
	if at := s.deadlineOf(r); at.IsZero() || at.After(s.Now()) {
		return nil
	}
	if s.isAbandoned(r) {
		return s.Record(ledger.Event{Change: &ledger.Close{Name: r.Name}})
	}
	if s.Recovery.IsStranger(r) && !s.Recovery.StrangerDeadline(r).After(s.Now()) {
		return s.EndReservation(r, ledger.Recovery, fmt.Sprintf("%q, in whose name %s announced it, did not claim it", r.Requester, r.Provider))
	}
	if s.isHealingDue(r) {
		return s.Healing.Advance(r)
	}
	hasPlacement := !hasNoStandingPlacement(r)
	switch _, due := s.placementDeadline(r); {
	case due == ledger.DueExpiry && hasPlacement, s.isTimeUp(r):
		defer failpoint.Hit(failpoint.BrokerExpired)
		return s.Record(ledger.Event{By: ledger.Deadlines, Change: &ledger.End{Name: r.Name, Reason: ledger.EndExpired, Message: "its duration is over"}})
	case !hasPlacement:
		return s.replacePlacement(r)
	case due == ledger.DueQueue:
		return s.Queue.TimeOut(r)
	case due == ledger.DueNotice:
		return s.withdrawPlacement(r, r.Placement(r.Notice.Placement), ledger.Preempted)
	case due == ledger.DueRecall:
		recalled := r.CalledBack()
		return s.withdrawPlacement(r, r.Placement(recalled.Placement), recalled.Reason())
	case due != ledger.DueNothing:
		return s.withdrawPlacement(r, r.Current(), string(due))
	}
	return nil
}

// isHealingDue reports whether a step of healing is due for the reservation now, and no step of any
// other kind.
func (s *session) isHealingDue(r *ledger.Reservation) bool {
	by, otherwise := s.Healing.DueAt(r), s.withoutHealing(r)
	return !by.IsZero() && !by.After(s.Now()) && (otherwise.IsZero() || otherwise.After(s.Now()))
}

// isTimeUp reports whether the requested duration of a reservation is over.
func (s *session) isTimeUp(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && r.Duration > 0 && !r.Until.After(s.Now())
}

// isAbandoned reports whether an ended reservation waits only for its requester's agent, and that
// agent has been silent for Config.StaleThreshold.
func (s *session) isAbandoned(r *ledger.Reservation) bool {
	return r.Closable() && s.Presence(r.Requester).Phase == term.Inactive
}

// closeAbandoned makes each reservation of a cluster due now if isAbandoned is true for the reservation.
func (s *session) closeAbandoned(clusterID string) {
	for _, r := range s.ReservationsOf(clusterID) {
		if s.isAbandoned(r) {
			s.SetDeadline(r.Name, s.Now())
		}
	}
}
