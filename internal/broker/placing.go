package broker

import (
	"errors"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// decided is a provider that may be granted to a request now, and the reason.
type decided struct {
	provider    string
	explanation ledger.Explanation
}

// decideInTurn chooses a provider for a request, after everything that comes before it:
//
//   - An offer that hardly differs from the recorded one is pending until a decision rests
//     on it. It is recorded then, so that a replay of the journal finds the same offer.
//   - Waiting requests are served first, from recorded offers and freed capacity.
//
// Both change the available choices, so the choice is repeated after either.
func (rs *reservations) decideInTurn(q *Request, tried []string) (*decided, error) {
	if !rs.s.b.configured {
		return nil, errUnconfigured()
	}
	served := false
	for {
		c := rs.s.decider.chooseProvider(q, tried)
		recorded, err := rs.recordOffersFor(c)
		switch {
		case err != nil:
			return nil, err
		case recorded:
			rs.s.queue.serveWaiting()
		case c.winner == "":
			return nil, rs.s.decider.explainRefusal(c.request, q)
		case !served && rs.s.queue.wouldJump(q, c.winner):
			served = true
			rs.s.queue.serveWaiting()
		default:
			return &decided{c.winner, rs.s.decider.explainChoice(c.request, c.target)}, nil
		}
	}
}

// recordOffersFor records the pending offers on which a choice rests: that of the winner, or
// all of them before a refusal. It reports whether there were any.
func (rs *reservations) recordOffersFor(c choice) (bool, error) {
	if c.winner == "" {
		return rs.s.clusters.recordAllPending()
	}
	return rs.s.clusters.recordPending(c.winner)
}

// replacePlacement grants a reservation a placement on a provider that was not tried yet. If
// there is none, the reservation waits or ends.
func (rs *reservations) replacePlacement(r *ledger.Reservation) error {
	if r.Unclaimed {
		return rs.releaseReservation(r, "its provider gave it up ("+r.Current().Withdrawn+") and its requester did not ask for it")
	}
	q, tried := rs.s.requestAndTried(r)
	c, err := rs.decideInTurn(q, tried)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		return rs.endOrRequeue(r, why)
	}
	if err != nil {
		return err
	}
	if !rs.s.recovery.recoveryDeadline().IsZero() && rs.s.queue.wouldJump(q, c.provider) {
		return nil // retried when the recovery is over
	}
	rs.s.log.Info("reservation moved", "reservation", r.Name, "from", r.Current().Provider, "to", c.provider, "reason", r.Current().Withdrawn)
	return rs.s.record(ledger.Event{Change: &ledger.Move{Name: r.Name, Provider: c.provider, Explanation: c.explanation}})
}

// endOrRequeue handles a reservation for which no further provider has room.
func (rs *reservations) endOrRequeue(r *ledger.Reservation, why *fault.Error) error {
	if !rs.s.recovery.recoveryDeadline().IsZero() {
		return nil // retried when the recovery is over
	}
	if r.Queue {
		return rs.s.queue.requeueReservation(r, why)
	}
	last := r.Current()
	end := &ledger.End{Name: r.Name, Reason: ledger.EndFailed, Explanation: ledger.Explain(why.Candidates, why.Rejected)}
	end.Message = last.Provider + " gave it up (" + last.Withdrawn + ") and " + why.Detail
	if last.Withdrawn == ledger.Preempted {
		end.Reason = ledger.EndPreempted
		end.Message = "it made room on " + last.Provider + " for a request of a higher priority, and " + why.Detail
	}
	if last.Withdrawn == ledger.Recalled {
		end.Message = last.Provider + " has called it back, and " + why.Detail
	}
	return rs.s.record(ledger.Event{Change: end})
}

// withdrawPlacement gives a placement up and finds another one, unless a second placement stands.
func (rs *reservations) withdrawPlacement(r *ledger.Reservation, p *ledger.Placement, reason string) error {
	err := rs.s.record(ledger.Event{Change: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: reason,
	}})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerWithdrawn)
	if !hasNoStandingPlacement(r) {
		return nil // the second placement stays
	}
	return rs.replacePlacement(r)
}
