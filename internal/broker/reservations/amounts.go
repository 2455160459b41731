package reservations

import (
	"fmt"
	"strings"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// errAwaiting returns the refusal of a change while the provider has not answered yet; what names
// the unanswered change or request.
func errAwaiting(r *ledger.Reservation, provider, what string) *fault.Error {
	return fault.New(fault.Awaiting, "reservation %q: %s has not answered %s yet; nothing was changed, try again", r.Name, provider, what).RetryIn(term.AnswerRetry)
}

func errBetween(r *ledger.Reservation, a, b *ledger.Placement) *fault.Error {
	return fault.New(fault.Awaiting, "reservation %q: %s or %s will serve it; nothing was changed, try again when one of them serves it alone",
		r.Name, a.Provider, b.Provider).RetryIn(term.AnswerRetry)
}

// checkAmounts returns an error if the provider cannot be asked for the wanted amounts now. A
// reservation can only grow on the provider that serves it, because moving it would move its
// workloads. Growth follows the rules for a new request: waiting requests that fit the same
// capacity come first, and capacity that victims of a preemption free is not available.
func (rs *Reservations) checkAmounts(r *ledger.Reservation, wanted *requests.Request) error {
	p := r.Current()
	if r.Pending != nil {
		return errAwaiting(r, r.Placement(r.Pending.Placement).Provider, fmt.Sprintf("change %d", r.Pending.Generation))
	}
	if !r.Stands(p) {
		return nil // nothing is held; the next provider gives the new amounts
	}
	if older := r.Beside(p); older != nil {
		return errBetween(r, older, p)
	}
	if rs.s.IsBlocked(p.Provider) || rs.s.IsUnseen(rs.s.Book().Cluster(p.Provider)) {
		return rs.s.ErrRecovering()
	}
	if rs.s.Book().HasAgent(p.Provider) && p.AcknowledgedAt.IsZero() {
		return errAwaiting(r, p.Provider, "the reservation")
	}
	if _, fits := quantity.Fits(wanted.Amounts, r.HeldBy(p)); fits {
		return nil
	}
	return rs.checkGrowth(r, wanted)
}

// checkGrowth returns an error if the provider has no room for the growth or does not meet the
// requirements with the larger amounts, or if waiting requests have a prior right to the room.
// Before it decides, it records the provider's pending offer and serves the queue.
func (rs *Reservations) checkGrowth(r *ledger.Reservation, wanted *requests.Request) error {
	p := r.Current()
	if _, err := rs.s.RecordPending(p.Provider); err != nil {
		return err
	}
	rs.s.ServeWaiting()
	recovering := !rs.s.SettledAt().IsZero()
	if (recovering || rs.s.IsPaused()) && rs.s.WouldJump(requests.Of(r), p.Provider) {
		if recovering {
			return rs.s.ErrRecovering()
		}
		return errNoGrowth(p.Provider, "has room, but a waiting request comes first, and the broker's administrator has paused the queue")
	}
	c := rs.s.Book().Cluster(p.Provider)
	if phase := rs.s.PhaseOf(p.Provider); phase != term.Active || rs.s.IsDenied(c) {
		return fault.New(fault.Conflict, "%s gives nothing more now, because it is %s or denied: ask again when it is back, or make a new request", p.Provider, phase)
	}
	if why := rs.s.Cordon(p.Provider); why != "" {
		return errNoGrowth(p.Provider, why)
	}
	free := rs.s.OpenCapacity(c)
	held := rs.s.ClaimedBy(r, p)
	var short []string
	for _, name := range wanted.Amounts.Names() {
		if more := wanted.Amounts[name] - held[name]; more > free[name] {
			short = append(short, fmt.Sprintf("%s more %s requested, %s free there",
				quantity.Format(name, more), name, quantity.Format(name, free[name])))
		}
	}
	if len(short) > 0 {
		return errNoGrowth(p.Provider, "has no room for it to grow: "+strings.Join(short, ", "))
	}
	if why, ok := decision.CheckGrowth(rs.market, rs.s.NewDecisionRequest(wanted, ledger.Tried{}), wanted.Amounts.Sub(held).Max(nil), p.Provider); !ok {
		return errNoGrowth(p.Provider, why.Message())
	}
	return nil
}

func errNoGrowth(provider, why string) error {
	return fault.New(fault.Conflict, "resources: %s serves this reservation and %s; ask for less, or make a new request for the rest, which may go to another cluster", provider, why)
}

// settleChange processes a provider's answer to a change of amounts. A repeated answer, or an answer
// to a change that is no longer pending, has no effect. If no such change was ever made, or the
// placement was given up, settleChange returns fault.Conflict.
func (rs *Reservations) settleChange(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	asked := r.AskedOf(p)
	if asked == nil || asked.Generation != report.Change {
		if report.Change <= r.Generation && r.Stands(p) {
			return nil
		}
		return fault.New(fault.Conflict, "no answer of %s to change %d of reservation %q is expected", p.Provider, report.Change, r.Name)
	}
	if other := r.Beside(p); other != nil {
		return errBetween(r, p, other)
	}
	refused := ""
	if report.State == v1.StatusReportStateRefused {
		refused = fmt.Sprintf("%s does not agree (%s)", p.Provider, report.Reason)
		if report.Message != "" {
			refused += ": " + report.Message
		}
	}
	rs.s.Log().Info("provider answered a change", "reservation", r.Name, "requester", r.Requester, "target", p.Provider,
		"generation", report.Change, "resources", asked.Amounts.Describe(), "refused", refused)
	return rs.s.Record(ledger.Event{Change: &ledger.Settle{PlacementRef: r.Ref(p), Generation: report.Change, Refused: refused}})
}
