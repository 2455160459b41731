// Package healing moves reservations away from providers that no longer serve them.
package healing

import (
	"errors"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// Retry is the time between two searches for another provider.
	Retry = 30 * time.Second
	// earlyRetry is the least time between two early searches, which begin when capacity is
	// freed. A lost provider may have served thousands of reservations, which all search together.
	earlyRetry = 5 * time.Second
)

// Session is what healing needs of the broker's session.
type Session interface {
	term.Term
	Timeouts() *term.Timeouts
	// SettledAt returns until when nothing may be decided, because the journal may have lost events;
	// zero if it may be decided now.
	SettledAt() time.Time
	// IsSilent reports whether a cluster with an agent has been silent for too long to be granted
	// anything.
	IsSilent(clusterID string) bool
	// CanPlace reports whether a provider can serve a request.
	CanPlace(q *requests.Request, tried ledger.Tried) bool
	// Decide chooses a provider, after it has served waiting requests that come first. It returns
	// fault.NoCandidate if none can serve the request.
	Decide(q *requests.Request, tried ledger.Tried) (*term.Decision, error)
	// RecordOffers records all pending offers, and reports whether there were any.
	RecordOffers() (bool, error)
	// Reschedule computes the deadline of a reservation again.
	Reschedule(r *ledger.Reservation)
}

// Healing moves a reservation to another provider if its provider is silent, if its placement is
// recalled, or if its virtual node is no longer Ready. Every step depends on the book alone, so a
// replica that takes over between two steps continues with the next. Only the times of searches
// are kept here.
type Healing struct {
	s Session
	// retryAt is when each reservation next searches for another provider.
	retryAt map[string]time.Time
	// earlyRetryAt is the last early retry that was scheduled: after capacity was freed,
	// reservations search for a provider at this time instead of at retryAt.
	earlyRetryAt time.Time
	// tried is true if any reservation has searched for a provider since earlyRetryAt was set.
	tried bool
	// refreshAt is the earliest time at which healing may record all pending offers again.
	refreshAt time.Time
	// RetryEvery is the time between two searches for another provider: Retry, except in a
	// simulation.
	RetryEvery time.Duration
}

// New returns Healing that has searched for no provider yet.
func New(s Session) *Healing {
	return &Healing{s: s, retryAt: map[string]time.Time{}, RetryEvery: Retry}
}

// Observe implements term.Observer.
func (h *Healing) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Forget:
		for _, name := range change.Names {
			delete(h.retryAt, name)
		}
	case *ledger.Withdraw:
		delete(h.retryAt, change.Name) // the next provider can be tried at once
	}
}

// HealingDueAt returns when the next step of a reservation's healing is due, zero if none is.
//
// While the broker was away, agents could not reach it. So healing starts only after every provider
// had time to report to this session. A provider that recalled the placement has reported already.
func (h *Healing) HealingDueAt(r *ledger.Reservation) time.Time {
	switch h.s.Book().Healing(r) {
	case ledger.HealNothing:
		return time.Time{}
	case ledger.HealBegin:
		begin := h.s.Began()
		if r.CalledBack() == nil {
			begin = term.Later(h.s.Began().Add(h.s.Timeouts().Silence), h.MayMoveAt(r.Current()))
		}
		return term.Later(term.Later(begin, h.s.SettledAt()), h.retryAt[r.Name])
	default:
		return h.s.Now()
	}
}

// SearchesAt returns when the broker will first look for another provider because the provider of a
// placement is silent or its node NotReady; zero if the broker will not look for one.
func (h *Healing) SearchesAt(r *ledger.Reservation, p *ledger.Placement) time.Time {
	if p != r.Current() || r.CalledBack() != nil || h.s.Book().Healing(r) != ledger.HealBegin {
		return time.Time{}
	}
	return term.Later(term.Later(h.s.Began().Add(h.s.Timeouts().Silence), h.MayMoveAt(p)), h.s.SettledAt())
}

// MayMoveAt returns when a reservation may leave its provider: when the provider has been silent, or
// the node NotReady, for as long as the timeouts say. If both apply, it returns the earlier time.
func (h *Healing) MayMoveAt(p *ledger.Placement) time.Time {
	timeouts, lost := h.s.Timeouts(), h.s.Book().Cluster(p.Provider).LostSince
	at := lost.Add(timeouts.Healing)
	if unready := p.NodeSince.Time().Add(timeouts.NotReady); p.IsUnready() && (lost.IsZero() || unready.Before(at)) {
		return unready
	}
	return at
}

// AdvanceHealing carries out the next healing step of a reservation.
func (h *Healing) AdvanceHealing(r *ledger.Reservation) error {
	p := r.Current()
	switch h.s.Book().Healing(r) {
	case ledger.HealBegin:
		return h.beginHealing(r)
	case ledger.HealFinish:
		older := r.Beside(p)
		return h.leavePlacement(r, older, h.s.Book().WhyLeft(r, older))
	case ledger.HealReturn:
		return h.leavePlacement(r, p, ledger.ProviderBack)
	}
	return nil
}

// beginHealing grants a second placement on another provider. If no other cluster can serve the
// reservation, nothing changes until the next search.
func (h *Healing) beginHealing(r *ledger.Reservation) error {
	left := r.Current()
	h.retryAt[r.Name], h.tried = h.s.Now().Add(h.RetryEvery), true
	q, tried := requests.Of(r), r.Tried(h.s.Now())
	if can, err := h.canBegin(r, q, tried); !can || err != nil {
		return err
	}
	c, err := h.s.Decide(q, tried)
	if fault.ReasonOf(err) == fault.NoCandidate {
		return nil // a waiting request was served first
	}
	if err != nil {
		return err
	}
	err = h.s.Record(ledger.Event{Change: &ledger.Heal{Name: r.Name, Provider: c.Provider, Price: c.Price, Explanation: c.Explanation}})
	if errors.Is(err, ledger.ErrTaken) {
		return nil // recording offers for the decision has changed the reservation
	}
	if err == nil {
		h.s.Log().Info("healing: granted a placement on another provider", "reservation", r.Name, "from", left.Provider,
			"reason", h.s.Book().WhyLeft(r, left), "to", c.Provider)
	}
	return err
}

// canBegin reports whether another provider could serve the reservation and the requester is not
// silent. A silent requester could not peer, so each new provider would wait for it in vain.
//
// It does not explain why no provider can serve the reservation: explanations are expensive and would
// not be shown anywhere, and every reservation on a lost provider would need one.
func (h *Healing) canBegin(r *ledger.Reservation, q *requests.Request, tried ledger.Tried) (bool, error) {
	if h.s.IsSilent(r.Requester) {
		return false, nil
	}
	if ok := h.s.CanPlace(q, tried); ok || h.s.Now().Before(h.refreshAt) {
		return ok, nil
	}
	h.refreshAt = h.s.Now().Add(time.Second)
	refreshed, err := h.s.RecordOffers()
	if !refreshed || err != nil {
		return false, err
	}
	return h.s.CanPlace(q, tried), nil
}

// RetrySoon lets reservations search for a provider earlier, because a cluster may have room now.
func (h *Healing) RetrySoon() {
	if !h.tried {
		return // no search since earlyRetryAt was set: every retry is at that time already, or earlier
	}
	h.tried = false
	if !h.earlyRetryAt.After(h.s.Now()) {
		h.earlyRetryAt = term.Later(h.s.Now(), h.earlyRetryAt.Add(earlyRetry))
	}
	for name, at := range h.retryAt {
		if at.After(h.earlyRetryAt) {
			h.retryAt[name] = h.earlyRetryAt
			h.s.Reschedule(h.s.Book().Reservation(name))
		}
	}
}

// leavePlacement gives up one of two placements. Its provider holds the capacity until it confirms
// that the placement is gone.
func (h *Healing) leavePlacement(r *ledger.Reservation, p *ledger.Placement, why string) error {
	h.s.Log().Info("healing: gave up one of two placements", "reservation", r.Name, "from", p.Provider, "to", r.Beside(p).Provider, "reason", why)
	return h.s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: r.Ref(p), Reason: why}})
}
