package broker

import (
	"errors"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// healRetry is the time between two searches for another provider.
	healRetry = 30 * time.Second
	// healEarlyRetry is the least time between two early searches, which begin when capacity is
	// freed. A lost provider may have served thousands of reservations, which all search together.
	healEarlyRetry = 5 * time.Second
)

// healing moves a reservation to another provider if its provider is silent, if its placement is
// recalled, or if its virtual node is no longer Ready. Every step depends on the book alone, so a
// replica that takes over between two steps continues with the next. Only the times of searches
// are kept here.
type healing struct {
	s *session
	// retryAt is when each reservation next searches for another provider.
	retryAt map[string]time.Time
	// earlyRetryAt is the last early retry that was scheduled: after capacity was freed,
	// reservations search for a provider at this time instead of at retryAt.
	earlyRetryAt time.Time
	// tried is true if any reservation has searched for a provider since earlyRetryAt was set.
	tried bool
	// refreshAt is the earliest time at which healing may record all pending offers again.
	refreshAt time.Time
	// retryEvery is the time between two searches for another provider: healRetry, except in a
	// WhatIf.
	retryEvery time.Duration
}

func newHealing(s *session) healing {
	return healing{s: s, retryAt: map[string]time.Time{}, retryEvery: healRetry}
}

func (h *healing) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Forget:
		for _, name := range change.Names {
			delete(h.retryAt, name)
		}
	case *ledger.Withdraw:
		delete(h.retryAt, change.Name) // the next provider can be tried at once
	}
}

// dueAt returns when the next step of a reservation's healing is due, zero if none is.
//
// While the broker was away, agents could not reach it. So healing starts only after every provider
// had time to report to this session. A provider that recalled the placement has reported already.
func (h *healing) dueAt(r *ledger.Reservation) time.Time {
	switch h.s.book.Healing(r) {
	case ledger.HealNothing:
		return time.Time{}
	case ledger.HealBegin:
		begin := h.s.began
		if r.CalledBack() == nil {
			begin = term.Later(h.s.began.Add(h.s.config().Timeouts.Silence), h.moveAt(r.Current()))
		}
		return term.Later(term.Later(begin, h.s.recovery.recoveryDeadline()), h.retryAt[r.Name])
	default:
		return h.s.now()
	}
}

// movesAt returns when the broker will first look for another provider because the provider of a
// placement is silent or its node NotReady; zero if the broker will not look for one.
func (h *healing) movesAt(r *ledger.Reservation, p *ledger.Placement) time.Time {
	if p != r.Current() || r.CalledBack() != nil || h.s.book.Healing(r) != ledger.HealBegin {
		return time.Time{}
	}
	return term.Later(term.Later(h.s.began.Add(h.s.config().Timeouts.Silence), h.moveAt(p)), h.s.recovery.recoveryDeadline())
}

// moveAt returns when a reservation may leave its provider: when the provider has been silent, or
// the node NotReady, for as long as the timeouts say. If both apply, it returns the earlier time.
func (h *healing) moveAt(p *ledger.Placement) time.Time {
	timeouts, lost := &h.s.config().Timeouts, h.s.book.Cluster(p.Provider).LostSince
	at := lost.Add(timeouts.Healing)
	if unready := p.NodeSince.Time().Add(timeouts.NotReady); p.IsUnready() && (lost.IsZero() || unready.Before(at)) {
		return unready
	}
	return at
}

// isDue reports whether a step of healing is due for the reservation now, and no step of any other
// kind.
func (h *healing) isDue(r *ledger.Reservation) bool {
	by, otherwise := h.dueAt(r), h.s.deadlines.withoutHealing(r)
	return !by.IsZero() && !by.After(h.s.now()) && (otherwise.IsZero() || otherwise.After(h.s.now()))
}

// advanceHealing carries out the next healing step of a reservation.
func (h *healing) advanceHealing(r *ledger.Reservation) error {
	p := r.Current()
	switch h.s.book.Healing(r) {
	case ledger.HealBegin:
		return h.beginHealing(r)
	case ledger.HealFinish:
		older := r.Beside(p)
		return h.leavePlacement(r, older, h.s.book.WhyLeft(r, older))
	case ledger.HealReturn:
		return h.leavePlacement(r, p, ledger.ProviderBack)
	}
	return nil
}

// beginHealing grants a second placement on another provider. If no other cluster can serve the
// reservation, nothing changes until the next search.
func (h *healing) beginHealing(r *ledger.Reservation) error {
	left := r.Current()
	h.retryAt[r.Name], h.tried = h.s.now().Add(h.retryEvery), true
	q, tried := h.s.requestAndTried(r)
	if can, err := h.canBegin(r, q, tried); !can || err != nil {
		return err
	}
	c, err := h.s.reservations.decideInTurn(q, tried)
	if fault.ReasonOf(err) == fault.NoCandidate {
		return nil // a waiting request was served first
	}
	if err != nil {
		return err
	}
	err = h.s.record(ledger.Event{Change: &ledger.Heal{Name: r.Name, Provider: c.provider, Price: c.price, Explanation: c.explanation}})
	if errors.Is(err, ledger.ErrTaken) {
		return nil // recording offers for the decision has changed the reservation
	}
	if err == nil {
		h.s.log.Info("healing: granted a placement on another provider", "reservation", r.Name, "from", left.Provider,
			"reason", h.s.book.WhyLeft(r, left), "to", c.provider)
	}
	return err
}

// canBegin reports whether another provider could serve the reservation and the requester is not
// silent. A silent requester could not peer, so each new provider would wait for it in vain.
//
// It does not explain why no provider can serve the reservation: explanations are expensive and would
// not be shown anywhere, and every reservation on a lost provider would need one.
func (h *healing) canBegin(r *ledger.Reservation, q *Request, tried []string) (bool, error) {
	if h.s.book.HasAgent(r.Requester) && h.s.clusters.presenceOf(r.Requester).phase != ClusterActive {
		return false, nil
	}
	if _, ok := h.s.decider.pickBest(h.s.decider.newDecisionRequest(q, tried), q.Target); ok || h.s.now().Before(h.refreshAt) {
		return ok, nil
	}
	h.refreshAt = h.s.now().Add(time.Second)
	refreshed, err := h.s.clusters.recordAllPending()
	if !refreshed || err != nil {
		return false, err
	}
	_, ok := h.s.decider.pickBest(h.s.decider.newDecisionRequest(q, tried), q.Target)
	return ok, nil
}

// retrySoon lets reservations search for a provider earlier, because a cluster may have room now.
func (h *healing) retrySoon() {
	if !h.tried {
		return // no search since earlyRetryAt was set: every retry is at that time already, or earlier
	}
	h.tried = false
	if !h.earlyRetryAt.After(h.s.now()) {
		h.earlyRetryAt = term.Later(h.s.now(), h.earlyRetryAt.Add(healEarlyRetry))
	}
	for name, at := range h.retryAt {
		if at.After(h.earlyRetryAt) {
			h.retryAt[name] = h.earlyRetryAt
			h.s.deadlines.rescheduleReservation(h.s.book.Reservation(name))
		}
	}
}

// leavePlacement gives up one of two placements. Its provider holds the capacity until it confirms
// that the placement is gone.
func (h *healing) leavePlacement(r *ledger.Reservation, p *ledger.Placement, why string) error {
	h.s.log.Info("healing: gave up one of two placements", "reservation", r.Name, "from", p.Provider, "to", r.Beside(p).Provider, "reason", why)
	return h.s.record(ledger.Event{Change: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: why,
	}})
}

// silentProvider returns the silent provider of a reservation and when it was last heard, "" if
// none is silent. If two providers are silent, it returns that of the older placement.
func (h *healing) silentProvider(r *ledger.Reservation) (string, time.Time) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if since := h.s.book.Cluster(p.Provider).LostSince; r.Stands(p) && !since.IsZero() {
			return p.Provider, since
		}
	}
	return "", time.Time{}
}

// describeHealing says, for people, which provider takes over from which while a reservation keeps
// its old placement next to the new one. It returns "" for any other reservation.
func (h *healing) describeHealing(r *ledger.Reservation) string {
	p := r.Current()
	older := r.Beside(p)
	if older == nil {
		return ""
	}
	if h.s.book.WhyLeft(r, older) == ledger.NodeLost {
		return fmt.Sprintf("the virtual node %s on %s is not Ready; %s takes over once its virtual node %s is",
			brokerv1alpha1.PlacementName(r.Name, older.Number), older.Provider, p.Provider, brokerv1alpha1.PlacementName(r.Name, p.Number))
	}
	return fmt.Sprintf("%s is silent; %s takes over, and workloads on %s stay until the virtual node %s is Ready",
		older.Provider, p.Provider, older.Provider, brokerv1alpha1.PlacementName(r.Name, p.Number))
}
