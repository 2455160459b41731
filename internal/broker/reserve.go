package broker

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/idle"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
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
		r, err := s.reservations.reserveOrQueue(q)
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

// reservations grants, changes and ends reservations for agents, controllers and deadlines. It has
// no state of its own: it turns requests into events.
type reservations struct{ s *session }

// reserveOrQueue grants a request. If no cluster can serve the request and it accepts to wait,
// reserveOrQueue puts it into the queue. If the key was used before, it returns the reservation of
// the first request.
func (rs *reservations) reserveOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	r, shut := rs.s.book.ByKey(q.Requester, q.Key)
	switch {
	case shut:
		return nil, fault.New(fault.Released, "key %q was released before this request arrived", q.Key)
	case r != nil:
		return r, rs.repeatRequest(r, q)
	}
	if err := rs.checkNew(q); err != nil {
		return nil, err
	}
	if err := rs.s.accounts.MakeRoom(q); err != nil {
		return nil, err
	}
	r, err := rs.decideOrQueue(q)
	if result := resultOf(r, err); result != "" {
		rs.s.metering.CountDecision(result)
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
func (rs *reservations) decideOrQueue(q *requests.Request) (*ledger.Reservation, error) {
	if q.Quote != "" {
		held, err := rs.s.quotes.Find(q)
		if err != nil {
			return nil, err
		}
		return rs.grantNew(q, term.Decision{Provider: held.Provider, Explanation: held.Explanation, Price: held.Price}, func(r *ledger.Reserve) ledger.Change {
			return &ledger.Take{Quote: held.Name, Reserve: *r}
		})
	}
	// decideNew records the offers on which the decision depends, and serves waiting requests that
	// come first.
	choice, err := rs.decideNew(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate && q.Queue {
		return rs.s.queue.enqueueRequest(q, why)
	}
	if err != nil {
		return nil, err
	}
	return rs.grantNew(q, *choice, func(r *ledger.Reserve) ledger.Change { return r })
}

// decideNew chooses a provider for a new request as decideInTurn does. While the broker recovers
// from a restore, it returns errRecovering if no provider was found. If the request would take
// capacity to which waiting requests have a prior right, it returns errRecovering during recovery,
// and errPaused while the queue is paused.
func (rs *reservations) decideNew(q *requests.Request) (*term.Decision, error) {
	choice, err := rs.decideInTurn(q, ledger.Tried{})
	recovering := !rs.s.recovery.SettledAt().IsZero()
	if recovering && (fault.ReasonOf(err) == fault.NoCandidate || err == nil && rs.s.queue.wouldJump(q, choice.Provider)) {
		return nil, rs.s.recovery.ErrRecovering()
	}
	if err == nil && rs.s.queue.isPaused() && rs.s.queue.wouldJump(q, choice.Provider) {
		return nil, rs.s.queue.errPaused(choice)
	}
	return choice, err
}

// grantNew records a new reservation with its first placement. change wraps the reservation in the
// change to record.
func (rs *reservations) grantNew(q *requests.Request, d term.Decision, change func(*ledger.Reserve) ledger.Change) (*ledger.Reservation, error) {
	reserve := rs.newReserve(q, "res-")
	reserve.Provider, reserve.Explanation, reserve.Price = d.Provider, d.Explanation, d.Price
	reserve.Until = rs.s.now().Add(q.Duration)
	if q.Duration == 0 {
		reserve.Until = rs.s.now().Add(lease)
	}
	failpoint.Hit(failpoint.BrokerDecided)
	if err := rs.s.record(ledger.Event{By: q.By, Change: change(reserve)}); err != nil {
		return nil, err
	}
	rs.s.log.Info(fmt.Sprintf("%s reserved from %s", q.Requester, d.Provider),
		"reservation", reserve.Name, "requester", q.Requester, "target", d.Provider, "resources", q.Amounts.Describe(), "by", q.By.String())
	return rs.s.book.Reservation(reserve.Name), nil
}

// repeatRequest handles a request whose key names a reservation already: it renews the lease of a
// reservation without a duration, and returns an error if the request differs.
func (rs *reservations) repeatRequest(r *ledger.Reservation, q *requests.Request) error {
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

// checkNew returns an error for a new request that may have been granted in a lost part of the
// journal, that exceeds the configured bounds, or whose requester is denied.
func (rs *reservations) checkNew(q *requests.Request) error {
	if err := rs.s.recovery.CheckRequest(q); err != nil {
		return err
	}
	return rs.checkAllowed(q)
}

// checkAllowed returns an error for a request that exceeds the configured bounds, or whose
// requester is denied.
func (rs *reservations) checkAllowed(q *requests.Request) error {
	if err := rs.s.config().Bounds.Check(q); err != nil {
		return err
	}
	return rs.checkRequester(q.Requester)
}

// newReserve returns a Reserve for a request, with a new name.
func (rs *reservations) newReserve(q *requests.Request, prefix string) *ledger.Reserve {
	return &ledger.Reserve{Name: rs.newName(prefix), Digest: q.Digest(), Request: q.Request}
}

// checkRequester returns an error for a denied requester. A requester without an agent needs no
// approval, because it need not be a cluster.
func (rs *reservations) checkRequester(id string) error {
	if policy := rs.s.config().Access; policy.Denied(id) || rs.s.book.HasAgent(id) {
		return policy.Check(id)
	}
	return nil
}

// newName returns a random name. A name must not be used twice: Liqo rejects a ResourceSlice whose
// name was used before.
func (rs *reservations) newName(prefix string) string {
	var random [7]byte
	_, _ = io.ReadFull(rs.s.b.opts.Random, random[:]) // never fails, see crypto/rand
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return prefix + strings.ToLower(text[:10])
}

// answerFor converts a reservation to the type of the REST API. A provider gets less of it than the
// requester.
func (rs *reservations) answerFor(r *ledger.Reservation, clusterID string) *v1.Reservation {
	out := &v1.Reservation{
		Name:             r.Name,
		RequesterID:      r.Requester,
		Phase:            v1.ReservationPhase(r.Phase()),
		Resources:        wire.FromAmounts(r.Amounts),
		ReservedAt:       r.ReservedAt(),
		Queue:            rs.s.queue.toQueuePlace(r),
		RemainingSeconds: rs.s.news.remainingSeconds(r),
		Placements:       make([]v1.Placement, len(r.Placements)),
		Message:          rs.describeState(r),
		EndReason:        v1.ReservationEndReason(r.EndReason),
		Change:           changeOf(r),
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		out.Placements[i] = v1.Placement{
			Number: p.Number, ClusterID: p.Provider, Reason: p.Withdrawn,
			State: v1.PlacementState(r.PlacementPhase(p)),
		}
	}
	if r.Requester != clusterID {
		return out
	}
	out.RequestedBy = ledger.ActorOf(r.By).String()
	if r.EndReason != "" {
		out.Message = endOf(r) // stays true, unlike the state that describeState adds
	}
	out.Cost = showCost(r)
	if p := r.Current(); p != nil && r.Waiting == nil {
		out.Instruction = rs.s.news.instructionFor(r, p, v1.InstructionRoleConsumer)
		out.Notice = out.Instruction.Notice
	}
	if r.Explanation != "" {
		out.Candidates = rs.s.config().Visibility.VisibleTo(rs.s.decider.decodeCandidates(r.Explanation), r.Provider, r.Target)
		out.Rejected = r.Explanation.Rejected()
	}
	if r.Waiting != nil {
		out.RenewSeconds = rs.s.queue.refreshAfter(r).Seconds()
		return out
	}
	if r.Duration == 0 && r.EndReason == "" {
		left := r.Until.Sub(rs.s.now())
		leaseSeconds := max(left, 0).Seconds()
		out.LeaseSeconds, out.RenewSeconds = &leaseSeconds, max(left+renewEvery-lease, time.Minute).Seconds()
	}
	if r.Pending != nil {
		out.RenewSeconds = answerRetry.Seconds()
	}
	return out
}

// describeState describes the state of a reservation in a sentence.
func (rs *reservations) describeState(r *ledger.Reservation) string {
	p := r.Serving()
	switch phase := r.Phase(); {
	case phase == ledger.Queued:
		return rs.s.queue.describeWait(r)
	case r.Notice != nil:
		return rs.s.preemption.noticeMessage(r)
	case r.CalledBack() != nil:
		return rs.recallMessage(r)
	case r.Beside(p) != nil:
		return healing.Describe(rs.s.book, r)
	case phase == ledger.Active && r.IdleNow() != nil:
		return idle.Describe(r) + excess.Message(p)
	case phase == ledger.Active:
		return fmt.Sprintf("virtual node %s on %s is Ready", brokerv1alpha1.PlacementName(r.Name, p.Number), p.Provider) + excess.Message(p)
	case phase == ledger.Releasing:
		return fmt.Sprintf("%s; waiting for %s to take everything down", endOf(r), strings.Join(rs.unfinishedClusters(r), " and "))
	case len(r.Placements) == 0:
		return endOf(r)
	case r.EndReason != "" && !r.Over():
		return fmt.Sprintf("%s; everything is released, and %s, which is silent, removes its side once it is back", endOf(r), r.Requester)
	case phase == ledger.Released, phase == ledger.Failed:
		return endOf(r) + "; everything is released"
	}
	return rs.describeSetup(r, p)
}

// describeSetup says what is still missing until the node of a placement is Ready.
func (rs *reservations) describeSetup(r *ledger.Reservation, p *ledger.Placement) string {
	if !rs.s.book.HasAgent(p.Provider) {
		return fmt.Sprintf("capacity of %s is locked; it has no agent to acknowledge it", p.Provider)
	}
	if p.AcknowledgedAt.IsZero() {
		return fmt.Sprintf("capacity of %s is locked; waiting for its agent to acknowledge", p.Provider)
	}
	if !rs.s.book.HasAgent(r.Requester) {
		return fmt.Sprintf("capacity of %s is locked; %q is not an enrolled cluster, so no cluster peers", p.Provider, r.Requester)
	}
	if p.IsUnready() {
		return fmt.Sprintf("virtual node %s on %s has not been Ready since %s", brokerv1alpha1.PlacementName(r.Name, p.Number), p.Provider, p.NodeSince.Time().Format(time.RFC3339))
	}
	if by := rs.s.connectBy(r, p); !by.IsZero() {
		return fmt.Sprintf("setting up the network between %s and %s until %s", r.Requester, p.Provider, by.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("capacity of %s is locked and acknowledged; waiting for the virtual node of %s", p.Provider, r.Requester)
}

func endOf(r *ledger.Reservation) string {
	if r.History == nil || r.EndMessage == "" {
		return "released"
	}
	return r.EndMessage
}

// unfinishedClusters returns the clusters that have not yet reported their side of a placement as
// gone.
func (rs *reservations) unfinishedClusters(r *ledger.Reservation) []string {
	var out []string
	add := func(id string) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		if !p.ConsumerGone && rs.s.book.HasAgent(r.Requester) {
			add(r.Requester)
		}
		if !p.ProviderGone {
			add(p.Provider)
		}
	}
	return out
}
