// Package reservations turns requests of agents, controllers and deadlines into events: it grants, changes
// and ends reservations.
package reservations

import (
	"cmp"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Session is what the reservations need of the broker's session.
type Session interface {
	term.Term
	// What the configuration and the budgets of members allow.
	IsConfigured() bool
	IsPaused() bool
	Bounds() *requests.Bounds
	Cordon(clusterID string) string
	IsDenied(c *ledger.Cluster) bool
	CheckRequester(clusterID string) error
	MakeRoom(q *requests.Request) error
	CheckWaiting(q *requests.Request) error

	// The market: RecordPending and RecordOffers record the offers that a decision depends on, and report
	// whether there were any. ChooseProvider picks a provider, "" if there is none.
	PhaseOf(clusterID string) term.ClusterPhase
	// Until undo is called, SupposeElastic counts nodes that clusters can create as if they existed. undo
	// is nil if there are none or they count already.
	SupposeElastic() (undo func())
	RecordPending(clusterID string) (bool, error)
	RecordOffers() (bool, error)
	NewDecisionRequest(q *requests.Request, tried ledger.Tried) *decision.Request
	ChooseProvider(q *requests.Request, tried ledger.Tried) (*decision.Request, string)
	PickBest(request *decision.Request, target string) (string, bool)
	Explain(request *decision.Request, q *requests.Request, provider string) *term.Decision
	ExplainRefusal(q *requests.Request, tried ledger.Tried) *fault.Error
	DecodeCandidates(e ledger.Explanation) []brokerv1alpha1.Candidate
	CountDecision(r *ledger.Reservation, err error)

	// The queue: WouldJump reports whether a request would take capacity from one that waits.
	ServeWaiting()
	WouldJump(q *requests.Request, clusterID string) bool
	OpenCapacity(c *ledger.Cluster) quantity.Amounts
	ClaimedBy(r *ledger.Reservation, p *ledger.Placement) quantity.Amounts
	CheckLength(why *fault.Error) error
	Enqueue(q *requests.Request, reserve *ledger.Reserve, why *fault.Error) error
	Requeue(r *ledger.Reservation, why *fault.Error) error

	// What a recovery from a restored journal forbids. SettledAt is zero if there is none.
	SettledAt() time.Time
	CheckRequest(q *requests.Request) error
	ErrRecovering() *fault.Error
	IsBlocked(clusterID string) bool
	IsUnseen(c *ledger.Cluster) bool

	FindHeld(q *requests.Request) (*ledger.Quote, error)
	ReleaseVacant(r *ledger.Reservation, p *ledger.Placement) error
	ReportUnreachable(requester string, c *ledger.Cluster, why string)
}

// Reservations grants, changes and ends reservations. It has no state.
type Reservations struct {
	s      Session
	market *decision.Market
	// random is the source of random names.
	random io.Reader
}

// New returns the Reservations of a session.
func New(s Session, market *decision.Market, random io.Reader) *Reservations {
	return &Reservations{s, market, random}
}

// ReserveOrQueue grants a request. If no cluster can serve the request and it accepts to wait,
// ReserveOrQueue puts it into the queue. If the key was used before, it returns the reservation of
// the first request.
func (rs *Reservations) ReserveOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	r, closed := rs.s.Book().ByKey(q.Requester, q.Key)
	switch {
	case closed:
		return nil, fault.New(fault.Released, "key %q was released before this request arrived", q.Key)
	case r != nil:
		return r, rs.repeatRequest(r, q)
	}
	if err := rs.CheckNew(q); err != nil {
		return nil, err
	}
	if err := rs.s.MakeRoom(q); err != nil {
		return nil, err
	}
	r, err := rs.decideOrQueue(q)
	rs.s.CountDecision(r, err)
	return r, err
}

func (rs *Reservations) decideOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	if q.Quote != "" {
		held, err := rs.s.FindHeld(q)
		if err != nil {
			return nil, err
		}
		return rs.grantNew(q, term.Decision{Provider: held.Provider, Explanation: held.Explanation, Price: held.Price}, func(r *ledger.Reserve) ledger.Change {
			return &ledger.TakeQuote{Quote: held.Name, Reserve: *r}
		})
	}
	// DecideNew records the offers on which the decision depends, and serves waiting requests that
	// come first.
	choice, err := rs.DecideNew(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate && q.Queue {
		return rs.enqueueRequest(q, why)
	}
	if err != nil {
		return nil, err
	}
	return rs.grantNew(q, *choice, func(r *ledger.Reserve) ledger.Change { return r })
}

// enqueueRequest puts a new request that no cluster can serve into the queue; why is the refusal that it
// would get otherwise.
func (rs *Reservations) enqueueRequest(q *requests.Request, why *fault.Error) (*ledger.Reservation, error) {
	if err := rs.s.CheckLength(why); err != nil {
		return nil, err
	}
	if err := rs.s.CheckWaiting(q); err != nil {
		return nil, err
	}
	reserve := rs.NewReserve(q, "res-")
	err := rs.s.Enqueue(q, reserve, why)
	return rs.s.Book().Reservation(reserve.Name), err
}

// DecideNew chooses a provider for a new request as Decide does. While the broker recovers
// from a restore, it returns ErrRecovering if no provider was found. If the request would take
// capacity to which waiting requests have a prior right, it returns ErrRecovering during recovery,
// and errPaused while the queue is paused.
func (rs *Reservations) DecideNew(q *requests.Request) (*term.Decision, error) {
	choice, err := rs.Decide(q, ledger.Tried{})
	recovering := !rs.s.SettledAt().IsZero()
	if recovering && (fault.ReasonOf(err) == fault.NoCandidate || err == nil && rs.wouldJump(q, choice)) {
		return nil, rs.s.ErrRecovering()
	}
	if err == nil && rs.s.IsPaused() && rs.wouldJump(q, choice) {
		return nil, rs.errPaused(choice)
	}
	return choice, err
}

func (rs *Reservations) grantNew(q *requests.Request, d term.Decision, change func(*ledger.Reserve) ledger.Change) (*ledger.Reservation, error) {
	reserve := rs.NewReserve(q, "res-")
	reserve.Provider, reserve.Explanation, reserve.Price = d.Provider, d.Explanation, d.Price
	reserve.Until = rs.s.Now().Add(cmp.Or(q.Duration, term.Lease))
	failpoint.Hit(failpoint.BrokerDecided)
	if err := rs.s.Record(ledger.Event{By: q.By, Change: change(reserve)}); err != nil {
		return nil, err
	}
	rs.s.Log().Info(fmt.Sprintf("%s reserved from %s", q.Requester, d.Provider),
		"reservation", reserve.Name, "requester", q.Requester, "target", d.Provider, "resources", q.Amounts.Describe(), "by", q.By.String())
	return rs.s.Book().Reservation(reserve.Name), nil
}

func (rs *Reservations) errPaused(c *term.Decision) *fault.Error {
	e := fault.New(fault.NoCandidate, "%s has room, but a waiting request comes first, and the broker's administrator has paused the queue", c.Provider)
	e.Candidates, e.Rejected = rs.s.DecodeCandidates(c.Explanation), c.Explanation.Rejected()
	return e
}

// repeatRequest handles a request whose key names a reservation already: it renews the lease of a
// reservation without a duration, and returns an error if the request differs.
func (rs *Reservations) repeatRequest(r *ledger.Reservation, q *requests.Request) error {
	if r.EndReason != "" && q.Holds == r.Name {
		return nil // even if the request differs, the caller learns how its reservation ended
	}
	// Renew the reservation even if the request differs: the agent is alive and refers to the
	// reservation.
	err := rs.renewLease(r)
	if err == nil && r.Digest != q.Digest() {
		err = fault.New(fault.KeyReused, "key %q belongs to reservation %q, which asks for something else: use a new key", q.Key, r.Name)
	}
	return err
}

// CheckNew returns an error for a new request that may have been granted in a lost part of the
// journal, that exceeds the configured bounds, or whose requester is denied.
func (rs *Reservations) CheckNew(q *requests.Request) error {
	if err := rs.s.CheckRequest(q); err != nil {
		return err
	}
	return rs.CheckAllowed(q)
}

// CheckAllowed returns an error for a request that exceeds the configured bounds, or whose
// requester is denied.
func (rs *Reservations) CheckAllowed(q *requests.Request) error {
	if err := rs.s.Bounds().Check(q); err != nil {
		return err
	}
	return rs.s.CheckRequester(q.Requester)
}

// NewReserve returns a Reserve for a request, with a new name.
func (rs *Reservations) NewReserve(q *requests.Request, prefix string) *ledger.Reserve {
	return &ledger.Reserve{Name: rs.newName(prefix), Digest: q.Digest(), Request: q.Request}
}

// newName returns a random name. A name must not be used twice: Liqo rejects a ResourceSlice whose
// name was used before.
func (rs *Reservations) newName(prefix string) string {
	var random [7]byte
	_, _ = io.ReadFull(rs.random, random[:]) // never fails, see crypto/rand
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return prefix + strings.ToLower(text[:10])
}

// EndReservation ends a reservation that its requester no longer wants, or that an
// administrator ends instead. It does nothing if the reservation has ended.
func (rs *Reservations) EndReservation(r *ledger.Reservation, by ledger.Actor, message string) error {
	if r.EndReason != "" {
		return nil
	}
	rs.s.Log().Info("reservation ends", "reservation", r.Name, "requester", r.Requester, "target", r.Provider, "why", message, "by", by.String())
	return rs.s.Record(ledger.Event{By: by, Change: &ledger.End{Name: r.Name, Reason: ledger.EndReleased, Message: message}})
}
