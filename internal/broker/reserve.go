package broker

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// RequestReservation implements the server's Broker: it grants a request, or puts it into the queue
// if the request asks for that and no cluster can serve it now.
func (b *Broker) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	q, err := requests.Read(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	if req.HoldSeconds != 0 {
		return nil, fault.New(fault.Invalid, "holdSeconds: only a quote is held; leave it out, or ask POST /api/v1/quotes")
	}
	var answer *unsignedAnswer
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r, err := s.reserveOrQueue(q)
		if err != nil {
			return s.config().Visibility.InError(err, q.Target)
		}
		answer = s.newUnsignedAnswer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerReserved)
	return b.signAnswer(answer), nil
}

// reserveOrQueue grants a request. If no cluster can serve the request and it accepts to wait,
// reserveOrQueue puts it into the queue. If the key was used before, it returns the reservation of
// the first request.
func (s *session) reserveOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	r, shut := s.book.ByKey(q.Requester, q.Key)
	switch {
	case shut:
		return nil, fault.New(fault.Released, "key %q was released before this request arrived", q.Key)
	case r != nil:
		return r, s.repeatRequest(r, q)
	}
	if err := s.CheckNew(q); err != nil {
		return nil, err
	}
	if err := s.Accounts.MakeRoom(q); err != nil {
		return nil, err
	}
	r, err := s.decideOrQueue(q)
	if result := resultOf(r, err); result != "" {
		s.Recorder.CountDecision(result)
	}
	return r, err
}

// resultOf returns the result of a new request for the metrics, "" if no decision was made.
func resultOf(r *ledger.Reservation, err error) string {
	switch {
	case err == nil && r.Waiting != nil:
		return metrics.Queued
	case err == nil:
		return metrics.Granted
	case fault.ReasonOf(err) == fault.NoCandidate, fault.ReasonOf(err) == fault.QueueFull:
		return metrics.Refused
	}
	return ""
}

// decideOrQueue chooses a provider for a new request that has passed all checks, and grants it or
// puts it into the queue.
func (s *session) decideOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	if q.Quote != "" {
		held, err := s.Quotes.Find(q)
		if err != nil {
			return nil, err
		}
		return s.grantNew(q, term.Decision{Provider: held.Provider, Explanation: held.Explanation, Price: held.Price}, func(r *ledger.Reserve) ledger.Change {
			return &ledger.Take{Quote: held.Name, Reserve: *r}
		})
	}
	// DecideNew records the offers on which the decision depends, and serves waiting requests that
	// come first.
	choice, err := s.DecideNew(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate && q.Queue {
		return s.enqueueRequest(q, why)
	}
	if err != nil {
		return nil, err
	}
	return s.grantNew(q, *choice, func(r *ledger.Reserve) ledger.Change { return r })
}

// enqueueRequest puts a new request that no cluster can serve into the queue; why is the refusal that it
// would get otherwise.
func (s *session) enqueueRequest(q *requests.Request, why *fault.Error) (*ledger.Reservation, error) {
	if err := s.CheckLength(why); err != nil {
		return nil, err
	}
	if err := s.CheckWaiting(q); err != nil {
		return nil, err
	}
	reserve := s.NewReserve(q, "res-")
	err := s.Enqueue(q, reserve, why)
	return s.book.Reservation(reserve.Name), err
}

// DecideNew chooses a provider for a new request as Decide does. While the broker recovers
// from a restore, it returns errRecovering if no provider was found. If the request would take
// capacity to which waiting requests have a prior right, it returns errRecovering during recovery,
// and errPaused while the queue is paused.
func (s *session) DecideNew(q *requests.Request) (*term.Decision, error) {
	choice, err := s.Decide(q, ledger.Tried{})
	recovering := !s.Recovery.SettledAt().IsZero()
	if recovering && (fault.ReasonOf(err) == fault.NoCandidate || err == nil && s.Queue.WouldJump(q, choice.Provider)) {
		return nil, s.Recovery.ErrRecovering()
	}
	if err == nil && s.isPaused() && s.Queue.WouldJump(q, choice.Provider) {
		return nil, s.errPaused(choice)
	}
	return choice, err
}

// grantNew records a new reservation with its first placement. change wraps the reservation in the
// change to record.
func (s *session) grantNew(q *requests.Request, d term.Decision, change func(*ledger.Reserve) ledger.Change) (*ledger.Reservation, error) {
	reserve := s.NewReserve(q, "res-")
	reserve.Provider, reserve.Explanation, reserve.Price = d.Provider, d.Explanation, d.Price
	reserve.Until = s.Now().Add(q.Duration)
	if q.Duration == 0 {
		reserve.Until = s.Now().Add(lease)
	}
	failpoint.Hit(failpoint.BrokerDecided)
	if err := s.Record(ledger.Event{By: q.By, Change: change(reserve)}); err != nil {
		return nil, err
	}
	s.log.Info(fmt.Sprintf("%s reserved from %s", q.Requester, d.Provider),
		"reservation", reserve.Name, "requester", q.Requester, "target", d.Provider, "resources", q.Amounts.Describe(), "by", q.By.String())
	return s.book.Reservation(reserve.Name), nil
}

// errPaused returns the refusal of a new request for which a cluster has room, but a waiting
// request comes first and the queue is paused.
func (s *session) errPaused(c *term.Decision) *fault.Error {
	e := fault.New(fault.NoCandidate, "%s has room, but a waiting request comes first, and the broker's administrator has paused the queue", c.Provider)
	e.Candidates, e.Rejected = s.DecodeCandidates(c.Explanation), c.Explanation.Rejected()
	return e
}

// repeatRequest handles a request whose key names a reservation already: it renews the lease of a
// reservation without a duration, and returns an error if the request differs.
func (s *session) repeatRequest(r *ledger.Reservation, q *requests.Request) error {
	if r.EndReason != "" && q.Holds == r.Name {
		return nil // even if the request differs, the caller learns how its reservation ended
	}
	// Renew the reservation even if the request differs: the agent is alive and refers to the
	// reservation.
	err := s.renewLease(r)
	if err == nil && r.Digest != q.Digest() {
		err = fault.New(fault.KeyReused, "key %q belongs to reservation %q, which asks for something else: use a new key", q.Key, r.Name)
	}
	return err
}

// CheckNew returns an error for a new request that may have been granted in a lost part of the
// journal, that exceeds the configured bounds, or whose requester is denied.
func (s *session) CheckNew(q *requests.Request) error {
	if err := s.Recovery.CheckRequest(q); err != nil {
		return err
	}
	return s.CheckAllowed(q)
}

// CheckAllowed returns an error for a request that exceeds the configured bounds, or whose
// requester is denied.
func (s *session) CheckAllowed(q *requests.Request) error {
	if err := s.config().Bounds.Check(q); err != nil {
		return err
	}
	return s.CheckRequester(q.Requester)
}

// NewReserve returns a Reserve for a request, with a new name.
func (s *session) NewReserve(q *requests.Request, prefix string) *ledger.Reserve {
	return &ledger.Reserve{Name: s.newName(prefix), Digest: q.Digest(), Request: q.Request}
}

// CheckRequester returns an error for a denied requester. A requester without an agent needs no
// approval, because it need not be a cluster.
func (s *session) CheckRequester(id string) error {
	if policy := s.config().Access; policy.Denied(id) || s.book.HasAgent(id) {
		return policy.Check(id)
	}
	return nil
}

// newName returns a random name. A name must not be used twice: Liqo rejects a ResourceSlice whose
// name was used before.
func (s *session) newName(prefix string) string {
	var random [7]byte
	_, _ = io.ReadFull(s.b.opts.Random, random[:]) // never fails, see crypto/rand
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return prefix + strings.ToLower(text[:10])
}
