package broker

import (
	"errors"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// healRetry is how long a reservation waits before its next search for another provider.
	healRetry = 30 * time.Second
	// healEarlyRetry is the least time between two early retries after capacity was freed. A
	// lost provider may have served thousands of reservations, which all retry together.
	healEarlyRetry = 5 * time.Second
)

// healing moves reservations away from a provider that is silent, that recalled them, or whose
// node is no longer Ready. Every step follows from the book, so a broker that stopped between two
// steps continues with the next. Only the times of retries are kept here.
type healing struct {
	s *session
	// retryAt is when each reservation searches for another provider again.
	retryAt map[string]time.Time
	// earlyRetryAt is the newest early retry: after capacity was freed somewhere, reservations
	// search for a provider at this time instead of at retryAt.
	earlyRetryAt time.Time
	// tried reports whether any reservation has searched for a provider since earlyRetryAt was
	// set.
	tried bool
	// refreshAt is the earliest time at which all pending offers are recorded again for
	// healing.
	refreshAt time.Time
}

func newHealing(s *session) healing { return healing{s: s, retryAt: map[string]time.Time{}} }

func (h *healing) observe(e event) {
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
// Agents could not reach a broker that was away. So healing starts only after every provider
// had time to report to this session. A provider that recalled the placement has reported
// already.
func (h *healing) dueAt(r *ledger.Reservation) time.Time {
	switch h.s.book.Healing(r) {
	case ledger.HealNothing:
		return time.Time{}
	case ledger.HealBegin:
		begin := h.s.began
		if r.CalledBack() == nil {
			begin = laterOf(h.s.began.Add(h.s.config().Timeouts.Silence), h.moveAt(r.Current()))
		}
		return laterOf(laterOf(begin, h.s.recovery.recoveryDeadline()), h.retryAt[r.Name])
	default:
		return h.s.now()
	}
}

// moveAt returns when a reservation may leave its provider: the earliest instant at which the provider
// was silent, or the node NotReady, for long enough.
func (h *healing) moveAt(p *ledger.Placement) time.Time {
	timeouts, lost := &h.s.config().Timeouts, h.s.book.Cluster(p.Provider).LostSince
	at := lost.Add(timeouts.Healing)
	if unready := p.NodeSince.Time().Add(timeouts.NotReady); p.IsUnready() && (lost.IsZero() || unready.Before(at)) {
		return unready
	}
	return at
}

// isDue reports whether a healing step is due now and comes before any other deadline.
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

// beginHealing grants a second placement on another provider. If no cluster has room, nothing changes
// until the next retry.
func (h *healing) beginHealing(r *ledger.Reservation) error {
	left := r.Current()
	h.retryAt[r.Name], h.tried = h.s.now().Add(healRetry), true
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
	err = h.s.record(ledger.Event{Change: &ledger.Heal{Name: r.Name, Provider: c.provider, Explanation: c.explanation}})
	if errors.Is(err, ledger.ErrTaken) {
		return nil // recording offers for the decision has changed the reservation
	}
	if err == nil {
		h.s.log.Info("healing: granted a placement on another provider", "reservation", r.Name, "from", left.Provider,
			"reason", h.s.book.WhyLeft(r, left), "to", c.provider)
	}
	return err
}

// canBegin reports whether another provider has room and the requester could peer with it. A
// silent requester could not: each new provider would wait for it in vain.
//
// It does not explain a refusal. Explanations are expensive, they are not shown here, and every
// reservation on a lost provider would need one.
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

// retrySoon moves retries forward, because a cluster may have room now.
func (h *healing) retrySoon() {
	if !h.tried {
		return // every retry is at earlyRetryAt already
	}
	h.tried = false
	if !h.earlyRetryAt.After(h.s.now()) {
		h.earlyRetryAt = laterOf(h.s.now(), h.earlyRetryAt.Add(healEarlyRetry))
	}
	for name, at := range h.retryAt {
		if at.After(h.earlyRetryAt) {
			h.retryAt[name] = h.earlyRetryAt
			h.s.deadlines.rescheduleReservation(h.s.book.Reservation(name))
		}
	}
}

// leavePlacement withdraws one of two placements. Its provider holds the capacity until it confirms the
// removal.
func (h *healing) leavePlacement(r *ledger.Reservation, p *ledger.Placement, why string) error {
	h.s.log.Info("healing: gave up one of two placements", "reservation", r.Name, "from", p.Provider, "to", r.Beside(p).Provider, "reason", why)
	return h.s.record(ledger.Event{Change: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: why,
	}})
}

// silentProvider returns the silent provider of a reservation and when it was last heard, "" if
// none is silent. If two are silent, it returns that of the older placement.
func (h *healing) silentProvider(r *ledger.Reservation) (string, time.Time) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if since := h.s.book.Cluster(p.Provider).LostSince; r.Stands(p) && !since.IsZero() {
			return p.Provider, since
		}
	}
	return "", time.Time{}
}

// describeHealing describes the state while two placements stand, "" otherwise.
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
