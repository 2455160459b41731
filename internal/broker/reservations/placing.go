package reservations

import (
	"errors"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Decide chooses a provider for a request, after two other steps:
//
//   - It records the pending offers on which the choice depends, so that a replay of the journal has
//     the same offers.
//   - It grants the capacity that was freed to waiting requests with precedence.
//
// Both may change the choice, so Decide then chooses again. If no cluster has room, it counts the nodes
// that clusters can create as well.
func (rs *Reservations) Decide(q *requests.Request, tried ledger.Tried) (*term.Decision, error) {
	if !rs.s.IsConfigured() {
		return nil, term.ErrUnconfigured()
	}
	served := false
	for {
		request, winner := rs.s.ChooseProvider(q, tried)
		recorded, err := rs.recordOffersFor(winner)
		if err != nil {
			return nil, err
		}
		if recorded {
			rs.s.ServeWaiting()
			continue
		}
		var choice *term.Decision
		if winner != "" {
			choice = rs.s.Explain(request, q, winner)
		} else if choice, err = rs.decideElastic(q, tried); err != nil {
			return nil, err
		}
		if served || !rs.wouldJump(q, choice) {
			return choice, nil
		}
		served = true
		rs.s.ServeWaiting()
	}
}

// wouldJump reports whether the choice would take capacity from a waiting request with precedence, on
// existing nodes or on those that its provider creates.
func (rs *Reservations) wouldJump(q *requests.Request, choice *term.Decision) bool {
	jumps := rs.s.WouldJump(q, choice.Provider)
	if jumps || !choice.OnNewNodes {
		return jumps
	}
	defer rs.s.SupposeElastic()()
	return rs.s.WouldJump(q, choice.Provider)
}

// decideElastic chooses a provider for a request that does not fit anywhere, among those that can create
// nodes.
func (rs *Reservations) decideElastic(q *requests.Request, tried ledger.Tried) (*term.Decision, error) {
	undo := rs.s.SupposeElastic()
	if undo == nil {
		return nil, rs.s.ExplainRefusal(q, tried)
	}
	defer undo()
	request := rs.s.NewDecisionRequest(q, tried)
	winner, ok := rs.s.PickBest(request, q.Target)
	if !ok {
		return nil, rs.s.ExplainRefusal(q, tried)
	}
	choice := rs.s.Explain(request, q, winner)
	choice.OnNewNodes = true
	return choice, nil
}

// recordOffersFor records the pending offers on which a choice depends: the offer of the winner, or
// all offers if there is no winner. It reports whether it recorded any.
func (rs *Reservations) recordOffersFor(winner string) (bool, error) {
	if winner == "" {
		return rs.s.RecordOffers()
	}
	return rs.s.RecordPending(winner)
}

// ReplacePlacement grants a reservation whose placement was given up a new one. If no cluster can serve
// the reservation, it waits in the queue or ends. An unclaimed reservation always ends.
func (rs *Reservations) ReplacePlacement(r *ledger.Reservation) error {
	if r.Unclaimed {
		return rs.EndReservation(r, ledger.Placing, "its provider gave it up ("+r.Current().Withdrawn+") and its requester did not ask for it")
	}
	q, tried := requests.Of(r), r.Tried(rs.s.Now())
	c, err := rs.Decide(q, tried)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		return rs.endOrRequeue(r, why)
	}
	if err != nil {
		return err
	}
	if !rs.s.SettledAt().IsZero() && rs.wouldJump(q, c) {
		return nil // tried again when the recovery is over
	}
	rs.s.Log().Info("reservation moved", "reservation", r.Name, "from", r.Current().Provider, "to", c.Provider, "reason", r.Current().Withdrawn)
	return rs.s.Record(ledger.Event{Change: &ledger.Move{Name: r.Name, Provider: c.Provider, Price: c.Price, Explanation: c.Explanation}})
}

func (rs *Reservations) endOrRequeue(r *ledger.Reservation, why *fault.Error) error {
	if !rs.s.SettledAt().IsZero() {
		return nil // tried again when the recovery is over
	}
	if r.Queue {
		return rs.s.Requeue(r, why)
	}
	last := r.Current()
	end := &ledger.End{Name: r.Name, Reason: ledger.EndFailed, Explanation: ledger.Explain(why.Candidates, why.Rejected)}
	end.Message = last.Provider + " gave it up (" + last.Withdrawn + ") and " + why.Detail
	switch last.Withdrawn {
	case ledger.Preempted:
		end.Reason = ledger.EndPreempted
		end.Message = "it made room on " + last.Provider + " for a request of a higher priority, and " + why.Detail
	case ledger.Recalled:
		end.Message = last.Provider + " has called it back, and " + why.Detail
	case ledger.Drained:
		end.Message = "the broker's administrator has drained " + last.Provider + ", and " + why.Detail
	}
	return rs.s.Record(ledger.Event{By: ledger.Placing, Change: end})
}

// WithdrawPlacement gives up a placement and finds another one, unless the reservation has a second
// placement that stands.
func (rs *Reservations) WithdrawPlacement(r *ledger.Reservation, p *ledger.Placement, reason string) error {
	if err := rs.s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: r.Ref(p), Reason: reason}}); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerWithdrawn)
	if !term.HasNoStandingPlacement(r) {
		return nil // the second placement stays
	}
	return rs.ReplacePlacement(r)
}
