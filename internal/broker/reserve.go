package broker

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Request is what is asked for, whichever way it came.
type Request struct {
	Requester string
	// Key makes repetitions harmless; it is the requester's own.
	Key      string
	Tenant   string
	Priority int32
	Amounts  quantity.Amounts
	// Target is the only provider wanted, "" for any.
	Target string
	// Duration is how long to hold it; 0 means as long as it is renewed.
	Duration time.Duration
	// Holds is the name of the reservation that the requester has under this key
	// already, "" if none.
	Holds string
	// Queue is whether it waits where no cluster can hold it, for Wait at most; 0 leaves
	// that to the configuration.
	Queue bool
	Wait  time.Duration
	// Patient is whether it stays with a provider that is lost.
	Patient bool
	// Object is the Reservation it was asked for with, nil over REST.
	Object *ledger.ObjectRef
	// Quote is the one that it takes over, "" for none.
	Quote string
	// Terms are what every provider has to meet.
	terms.Terms
}

// askedFor is the request that a reservation was granted for, as it stands after its
// changes.
func askedFor(r *ledger.Reservation) *Request {
	return &Request{
		Requester: r.Requester, Key: r.Key, Tenant: r.Tenant, Priority: r.Priority, Amounts: r.Amounts,
		Target: r.Target, Duration: r.Duration, Object: r.Object, Queue: r.Queue, Wait: r.Wait,
		Patient: r.Patient, Terms: r.Demands(),
	}
}

// digest tells a repetition from another request with the same key.
func (r *Request) digest() string {
	text, err := json.Marshal(struct {
		Tenant   string
		Priority int32
		Amounts  quantity.Amounts
		Target   string
		Duration time.Duration
		Queue    bool
		Wait     time.Duration
		Patient  bool
		terms.Terms
	}{r.Tenant, r.Priority, r.Amounts, r.Target, r.Duration, r.Queue, r.Wait, r.Patient, r.Terms})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// RequestReservation implements the server's Broker.
func (b *Broker) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	request, err := requestOf(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	if req.HoldSeconds != 0 {
		return nil, fault.New(fault.Invalid, "holdSeconds: only a quote is held; leave it out, or ask POST /api/v1/quotes")
	}
	var answer *v1.Reservation
	err = b.changeOf(ctx, clusterID, func(t *term) error {
		r, err := t.reserve(request)
		if err != nil {
			return t.b.config.Visibility.inError(err, request.Target)
		}
		answer = t.answer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerReserved)
	return answer, nil
}

func requestOf(clusterID, key string, req *v1.ReservationRequest) (*Request, error) {
	if req.RequesterID != "" && req.RequesterID != clusterID {
		return nil, fault.New(fault.Forbidden, "the certificate is that of cluster %q: it cannot ask for %q", clusterID, req.RequesterID)
	}
	amounts, err := wire.ToAmounts(req.Resources)
	if err != nil {
		return nil, fault.New(fault.Invalid, "resources: %v", err)
	}
	if err := checkDuration(req.DurationSeconds); err != nil {
		return nil, err
	}
	if most := int64(LongestDuration / time.Second); req.QueueTimeoutSeconds < 0 || req.QueueTimeoutSeconds > most {
		return nil, fault.New(fault.Invalid, "queueTimeoutSeconds: %d is not between 0 and %d", req.QueueTimeoutSeconds, most)
	}
	if p := req.QueuePolicy; p != "" && !p.Valid() {
		return nil, fault.New(fault.Invalid, "queuePolicy: %q is neither Fail nor Queue", p)
	}
	if h := req.Healing; h != "" && !h.Valid() {
		return nil, fault.New(fault.Invalid, "healing: %q is neither Migrate nor Wait", h)
	}
	q := &Request{
		Requester: clusterID, Key: key, Tenant: req.Tenant, Priority: req.Priority, Amounts: amounts,
		Target: req.TargetClusterID, Duration: time.Duration(req.DurationSeconds) * time.Second,
		Holds: req.Reservation, Queue: req.QueuePolicy == v1.ReservationRequestQueuePolicyQueue,
		Wait: time.Duration(req.QueueTimeoutSeconds) * time.Second, Patient: req.Healing == v1.ReservationRequestHealingWait,
		Quote: req.Quote,
	}
	if q.Terms, err = wire.ToTerms(req); err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	return q, q.complete()
}

// reserve grants a request or lets it wait, or finds what became of its key before.
func (t *term) reserve(q *Request) (*ledger.Reservation, error) {
	r, shut := t.state.ByKey(q.Requester, q.Key)
	switch {
	case shut:
		return nil, fault.New(fault.Released, "key %q was released before this request arrived", q.Key)
	case r != nil:
		return r, t.askedAgain(r, q)
	}
	if err := t.mayAsk(q); err != nil {
		return nil, err
	}
	if err := t.makeRecordRoom(q); err != nil {
		return nil, err
	}
	if q.Quote != "" {
		return t.takeOver(q)
	}
	choice, err := t.place(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate && q.Queue {
		return t.enqueue(q, why)
	}
	if err != nil {
		return nil, err
	}
	return t.grantNew(q, *choice, func(r *ledger.Reserve) ledger.Event { return ledger.Event{Change: r} })
}

// place chooses for a new request, that is to wait for nobody.
func (t *term) place(q *Request) (*choice, error) {
	choice, err := t.choose(q, nil)
	settling := !t.settling().IsZero()
	if settling && (fault.ReasonOf(err) == fault.NoCandidate || err == nil && t.overtakes(q, choice.winner)) {
		return nil, t.errRecovering()
	}
	return choice, err
}

// grantNew enters a reservation with its first placement, in an event that makes it.
func (t *term) grantNew(q *Request, choice choice, event func(*ledger.Reserve) ledger.Event) (*ledger.Reservation, error) {
	reserve := t.reserveOf(q, "res-")
	reserve.Provider, reserve.Explanation = choice.winner, choice.explanation
	reserve.Until = t.now().Add(q.Duration)
	if q.Duration == 0 {
		reserve.Until = t.now().Add(lease)
	}
	failpoint.Hit(failpoint.BrokerDecided)
	if err := t.record(event(reserve)); err != nil {
		return nil, err
	}
	t.b.opts.Log.Info(fmt.Sprintf("%s reserved from %s", q.Requester, choice.winner),
		"reservation", reserve.Name, "requester", q.Requester, "target", choice.winner, "resources", describe(q.Amounts))
	return t.state.Reservation(reserve.Name), nil
}

// askedAgain is for a key that has a reservation already.
func (t *term) askedAgain(r *ledger.Reservation, q *Request) error {
	if r.EndReason != "" && q.Holds == r.Name {
		return nil // Whatever it asks for by now, it is told how that ended.
	}
	// A change that is refused must not end what its requester still speaks of.
	err := t.renew(r)
	if err == nil && r.Digest != q.digest() {
		err = fault.New(fault.KeyReused, "key %q belongs to reservation %q, which asks for something else: use a new key", q.Key, r.Name)
	}
	return err
}

// mayAsk refuses a new request before any cluster is looked at.
func (t *term) mayAsk(q *Request) error {
	if err := t.checkRecovered(q); err != nil {
		return err
	}
	return t.checkAsker(q)
}

// checkAsker refuses what the bounds do not allow, and whoever was shut out.
func (t *term) checkAsker(q *Request) error {
	if err := t.b.config.Bounds.check(q); err != nil {
		return err
	}
	return t.checkRequester(q.Requester)
}

// reserveOf enters a request into the book under a new name.
func (t *term) reserveOf(q *Request, prefix string) *ledger.Reserve {
	return &ledger.Reserve{
		Name: t.mint(prefix), Key: q.Key, Digest: q.digest(), Requester: q.Requester, Tenant: q.Tenant, Priority: q.Priority,
		Amounts: q.Amounts, Target: q.Target, Duration: q.Duration, Object: q.Object, Queue: q.Queue, Wait: q.Wait,
		Patient: q.Patient, Terms: q.Terms.OrNil(),
	}
}

// checkRequester refuses a cluster that was shut out, whoever asks for it. Where no
// agent speaks for a requester it may be no cluster at all, and needs no approval.
func (t *term) checkRequester(id string) error {
	if policy := t.b.config.Access; policy.Denied(id) || t.state.HasAgent(id) {
		return policy.Check(id)
	}
	return nil
}

// renew moves the end of a reservation that has none of its own, but not so often
// that asking is a write every time.
func (t *term) renew(r *ledger.Reservation) error {
	if r.Duration != 0 || r.EndReason != "" || r.Waiting != nil {
		return nil
	}
	until := t.now().Add(lease)
	if until.Sub(r.Until) < renewEvery/2 {
		return nil
	}
	return t.record(ledger.Event{Change: &ledger.Renew{Name: r.Name, Until: until}})
}

// mint makes a name that was never used: Liqo punishes a slice whose name comes again.
func (t *term) mint(prefix string) string {
	var random [7]byte
	_, _ = io.ReadFull(t.b.opts.Random, random[:]) // never fails, see crypto/rand
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return prefix + strings.ToLower(text[:10])
}

// describe writes amounts for a log line or a message, in stable order.
func describe(amounts quantity.Amounts) string {
	parts := make([]string, 0, len(amounts))
	for _, name := range amounts.Names() {
		parts = append(parts, fmt.Sprintf("%s=%s", name, quantity.Format(name, amounts[name])))
	}
	return strings.Join(parts, " ")
}

// answer is a reservation as the caller may see it.
func (t *term) answer(r *ledger.Reservation, clusterID string) *v1.Reservation {
	out := &v1.Reservation{
		Name:             r.Name,
		RequesterID:      r.Requester,
		Phase:            v1.ReservationPhase(t.state.Phase(r)),
		Resources:        wire.FromAmounts(r.Amounts),
		ReservedAt:       r.ReservedAt(),
		Queue:            t.placeOf(r),
		RemainingSeconds: t.remaining(r),
		Placements:       make([]v1.Placement, len(r.Placements)),
		Message:          t.message(r),
		EndReason:        v1.ReservationEndReason(r.EndReason),
		Change:           changeOf(r),
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		out.Placements[i] = v1.Placement{
			Number: p.Number, ClusterID: p.Provider, Reason: p.Withdrawn,
			State: v1.PlacementState(t.state.PlacementPhase(r, p)),
		}
	}
	if r.Requester != clusterID {
		return out
	}
	if p := r.Current(); p != nil && r.Waiting == nil {
		out.Instruction = t.instruction(r, p, v1.InstructionRoleConsumer)
		out.Notice = out.Instruction.Notice
	}
	if r.Explanation != "" {
		out.Candidates = t.b.config.Visibility.of(t.candidatesOf(r.Explanation), r.Provider, r.Target)
		out.Rejected = r.Explanation.Rejected()
	}
	if r.Waiting != nil {
		out.RenewSeconds = queueRefresh.Seconds()
	} else if r.Pending != nil {
		out.RenewSeconds = answerRetry.Seconds()
	} else if r.Duration == 0 && r.EndReason == "" {
		out.RenewSeconds = max(r.Until.Add(renewEvery-lease).Sub(t.now()), time.Minute).Seconds()
	}
	return out
}

// message says in words where a reservation is.
func (t *term) message(r *ledger.Reservation) string {
	p := r.Serving()
	switch phase := t.state.Phase(r); {
	case phase == ledger.Queued:
		return t.queueMessage(r)
	case r.Notice != nil:
		return t.noticeMessage(r)
	case r.CalledBack() != nil:
		return t.recallMessage(r)
	case r.Beside(p) != nil:
		return t.healingMessage(r)
	case phase == ledger.Active:
		return fmt.Sprintf("virtual node %s on %s is Ready", ledger.PlacementName(r.Name, p.Number), p.Provider) + excessMessage(p)
	case phase == ledger.Releasing:
		return fmt.Sprintf("%s; waiting for %s to take everything down", endOf(r), strings.Join(t.waitingFor(r), " and "))
	case len(r.Placements) == 0:
		return endOf(r)
	case r.EndReason != "" && !t.state.Over(r):
		return fmt.Sprintf("%s; everything is given back, and %s, of which nothing is heard, takes its side down once it is back", endOf(r), r.Requester)
	case phase == ledger.Released, phase == ledger.Failed:
		return endOf(r) + "; everything is given back"
	}
	if !t.state.HasAgent(p.Provider) {
		return fmt.Sprintf("capacity of %s is locked; no agent speaks for it", p.Provider)
	}
	if p.AcknowledgedAt.IsZero() {
		return fmt.Sprintf("capacity of %s is locked; waiting for its agent to acknowledge", p.Provider)
	}
	if !t.state.HasAgent(r.Requester) {
		return fmt.Sprintf("capacity of %s is locked; %q is no enrolled cluster, so nobody peers", p.Provider, r.Requester)
	}
	return fmt.Sprintf("capacity of %s is locked and acknowledged; waiting for the virtual node of %s", p.Provider, r.Requester)
}

func endOf(r *ledger.Reservation) string {
	if r.History == nil || r.EndMessage == "" {
		return "released"
	}
	return r.EndMessage
}

// waitingFor names the clusters that have not taken their side down.
func (t *term) waitingFor(r *ledger.Reservation) []string {
	var out []string
	add := func(id string) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		if !p.ConsumerGone && t.state.HasAgent(r.Requester) {
			add(r.Requester)
		}
		if !p.ProviderGone {
			add(p.Provider)
		}
	}
	return out
}
