// Package transporttest provides an in-memory broker for tests, a transport to it within the same
// process, and a conformance suite for transports.
package transporttest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Provider is the ID of the cluster on which Broker places every reservation.
const Provider = "paris"

// HeldQuote is the name of every quote that Broker holds.
const HeldQuote = "quo-0000000001"

// Broker grants every request unless Decide is set, keeps one reservation for each key, and
// delivers the instructions and messages that it is given. It records all calls, and can be made
// to fail. It is safe for concurrent use.
type Broker struct {
	// Decide answers the first request with a key; the default is Grant. If it returns an error, the
	// key stays unused. A test may later modify a reservation that Decide returned.
	Decide func(name string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// Quote answers requests for quotes. If it is nil, every quote is for Provider, and is held if
	// the request asks for that.
	Quote func(key string, req *v1.ReservationRequest) (*v1.Quote, error)
	// Receipt is the answer to every advertisement; if it is nil, the answer says that nothing is
	// reserved.
	Receipt *v1.AdvertisementReceipt
	// RefuseChange is returned as the error of every change, unless it is nil.
	RefuseChange error

	// mu protects the fields below.
	mu           sync.Mutex
	calls        []Call
	failures     map[Operation][]error
	journal      int
	position     int
	reservations map[string]*reservation
	instructions map[string][]entry[v1.Instruction]
	messages     map[string][]entry[v1.Message]
	down         bool
	beforeAnswer func(ctx context.Context) error
	announce     bool // answers to polls ask for the cluster's holdings
	// changed is closed and replaced at every call, and at every new instruction or message.
	changed chan struct{}
}

// reservation is stored under "<cluster>/<key>". If state is nil, the key was released before any
// request used it, and is refused from then on.
type reservation struct {
	request    v1.ReservationRequest
	state      *v1.Reservation
	generation int64
}

// entry is an instruction or message and its position in the journal.
type entry[T any] struct {
	position int
	news     T
}

// NewBroker returns an empty broker.
func NewBroker() *Broker {
	return &Broker{
		failures:     map[Operation][]error{},
		journal:      1,
		reservations: map[string]*reservation{},
		instructions: map[string][]entry[v1.Instruction]{},
		messages:     map[string][]entry[v1.Message]{},
		changed:      make(chan struct{}),
	}
}

// Ping returns the version and the number of the journal.
func (b *Broker) Ping(context.Context, string) (*v1.Pong, error) {
	if err := b.recordCall(Call{Operation: Ping}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &v1.Pong{Version: "test", ApiVersion: "v1", ApiMinor: v1.Minor, JournalID: strconv.Itoa(b.journal)}, nil
}

// PublishAdvertisement answers with Receipt.
func (b *Broker) PublishAdvertisement(_ context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if err := b.recordCall(Call{Operation: PublishAdvertisement, ClusterID: clusterID, Body: adv}); err != nil {
		return nil, err
	}
	if b.Receipt != nil {
		return b.Receipt, nil
	}
	return &v1.AdvertisementReceipt{Epoch: max(adv.Epoch, 1), NextSeconds: 30, Reserved: v1.Amounts{}, Available: maps.Clone(adv.Allocatable)}, nil
}

// RequestReservation answers the first request with a key by calling Decide or Grant, and a
// repeated one with the reservation's current state.
func (b *Broker) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: RequestReservation, ClusterID: clusterID, Name: key, Body: req}); err != nil {
		return nil, err
	}
	answer, before, err := b.reserveKey(clusterID, key, req)
	if err == nil && before != nil {
		err = before(ctx)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// reserveKey returns the answer to a request, and the function that must run before the answer is
// sent (see SetBeforeAnswer).
func (b *Broker) reserveKey(clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, func(context.Context) error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := *req
	asked.RequesterID, asked.Reservation, asked.Actor, asked.Quote = clusterID, "", "", ""
	known, ok := b.reservations[clusterID+"/"+key]
	switch {
	case !ok:
	case known.state == nil || known.state.Phase == v1.ReservationPhaseReleased:
		return nil, nil, fault.New(fault.Released, "key %q was released", key)
	case !reflect.DeepEqual(known.request, asked):
		return nil, nil, fault.New(fault.KeyReused, "key %q came with another request before", key)
	default:
		return cloneReservation(known.state), b.beforeAnswer, nil
	}
	decide := b.Decide
	if decide == nil {
		decide = Grant
	}
	state, err := decide(fmt.Sprintf("res-%010d", len(b.reservations)+1), &asked)
	if err != nil {
		return nil, nil, err
	}
	state.Instruction.Key = key
	b.reservations[clusterID+"/"+key] = &reservation{request: asked, state: state}
	return cloneReservation(state), b.beforeAnswer, nil
}

// Grant grants a request on Provider. A reservation without a duration must be renewed every
// minute.
func Grant(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	r := &v1.Reservation{
		Name: name, Phase: v1.ReservationPhaseReserved, RequesterID: req.RequesterID, Resources: maps.Clone(req.Resources),
		ReservedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Placements: []v1.Placement{{Number: 1, ClusterID: Provider, State: v1.PlacementStateAssigned}},
		Candidates: []v1.Candidate{{ClusterID: Provider, Score: "75.00"}, {ClusterID: "berlin", Score: "50.00", Reason: "LowerScore"}},
		Instruction: v1.Instruction{
			Reservation: name, Placement: 1, Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold,
			ConsumerID: req.RequesterID, ProviderID: Provider, ProviderEndpoint: "https://paris.example:6443", Resources: req.Resources,
		},
	}
	if req.DurationSeconds == 0 {
		r.RenewSeconds = 60
		return r, nil
	}
	left := float64(req.DurationSeconds)
	r.RemainingSeconds, r.Instruction.RemainingSeconds = &left, &left
	return r, nil
}

// RequestQuote records the call, and answers with Quote.
func (b *Broker) RequestQuote(_ context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	if err := b.recordCall(Call{Operation: RequestQuote, ClusterID: clusterID, Name: key, Body: req}); err != nil {
		return nil, err
	}
	if b.Quote != nil {
		return b.Quote(key, req)
	}
	quote := &v1.Quote{
		ClusterID: Provider, Resources: maps.Clone(req.Resources), Rejected: map[string]int32{},
		Candidates: []v1.QuotedCandidate{{Candidate: v1.Candidate{ClusterID: Provider, Score: "100.00"}}},
	}
	if req.HoldSeconds > 0 {
		quote.Name, quote.RemainingSeconds = HeldQuote, float64(req.HoldSeconds)
	}
	return quote, nil
}

// ReleaseQuote records the call.
func (b *Broker) ReleaseQuote(_ context.Context, clusterID, nameOrKey string) error {
	return b.recordCall(Call{Operation: ReleaseQuote, ClusterID: clusterID, Name: nameOrKey})
}

// GetReservation returns a reservation of the calling cluster.
func (b *Broker) GetReservation(_ context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: GetReservation, ClusterID: clusterID, Name: nameOrKey}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.findReservation(clusterID, nameOrKey); r != nil && r.state != nil {
		return cloneReservation(r.state), nil
	}
	return nil, fault.New(fault.NotFound, "no reservation %q of cluster %q", nameOrKey, clusterID)
}

// ChangeReservation accepts a change unless a newer one was accepted before. A new duration
// applies at once; new amounts apply after Agree.
func (b *Broker) ChangeReservation(_ context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: ChangeReservation, ClusterID: clusterID, Name: nameOrKey, Body: change}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.findReservation(clusterID, nameOrKey)
	switch {
	case b.RefuseChange != nil:
		return nil, b.RefuseChange
	case r == nil || r.state == nil:
		return nil, fault.New(fault.NotFound, "no reservation %q of cluster %q", nameOrKey, clusterID)
	case change.Generation < r.generation:
		return nil, fault.New(fault.Conflict, "change %d was overtaken by change %d", change.Generation, r.generation)
	}
	r.applyChange(change)
	return cloneReservation(r.state), nil
}

func (r *reservation) applyChange(change *v1.ReservationChange) {
	r.generation, r.request.DurationSeconds = change.Generation, change.DurationSeconds
	if r.state.RemainingSeconds = nil; change.DurationSeconds > 0 {
		left := float64(change.DurationSeconds)
		r.state.RemainingSeconds = &left
	}
	r.state.Instruction.RemainingSeconds = r.state.RemainingSeconds
	if change.Resources == nil {
		return
	}
	r.request.Resources = change.Resources
	if r.state.Instruction.Reservation != "" && !maps.Equal(r.state.Resources, change.Resources) {
		r.state.Change = &v1.ChangeState{
			Generation: change.Generation, State: v1.ChangeStateStatePending, Resources: change.Resources, Message: "waiting for paris to agree",
		}
		r.state.RenewSeconds = 2
	}
}

// ReleaseReservation ends a reservation at once.
func (b *Broker) ReleaseReservation(_ context.Context, clusterID, nameOrKey, user string) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: ReleaseReservation, ClusterID: clusterID, Name: nameOrKey, User: user}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.findReservation(clusterID, nameOrKey)
	if r == nil {
		b.reservations[clusterID+"/"+nameOrKey] = &reservation{}
		return nil, nil
	}
	if r.state == nil {
		return nil, nil
	}
	r.state.Phase = v1.ReservationPhaseReleased
	return cloneReservation(r.state), nil
}

// ReportStatus records the call.
func (b *Broker) ReportStatus(_ context.Context, clusterID, name string, report *v1.StatusReport) error {
	return b.recordCall(Call{Operation: ReportStatus, ClusterID: clusterID, Name: name, Body: report})
}

// AnnounceHoldings records the call. From then on, answers to polls no longer ask for holdings.
func (b *Broker) AnnounceHoldings(_ context.Context, clusterID string, h *v1.Holdings) error {
	if err := b.recordCall(Call{Operation: AnnounceHoldings, ClusterID: clusterID, Body: h}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announce = false
	return nil
}

// AwaitOpening implements server.Broker. It returns at once, because this Broker always answers.
func (b *Broker) AwaitOpening(context.Context) {}

// Witness implements server.Broker.
func (b *Broker) Witness(string, string) {}

// ListCosts records the call, and answers with an empty list.
func (b *Broker) ListCosts(_ context.Context, clusterID string, q *v1.ListCostsParams) (*v1.CostList, error) {
	if err := b.recordCall(Call{Operation: ListCosts, ClusterID: clusterID, Body: q}); err != nil {
		return nil, err
	}
	return &v1.CostList{Rows: []v1.CostRow{}}, nil
}

// FetchInstructions returns the instructions for a cluster since cursor. If there are none, it
// waits for one until the time wait is over.
func (b *Broker) FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	if err := b.recordCall(Call{Operation: FetchInstructions, ClusterID: clusterID, Cursor: cursor, Wait: wait}); err != nil {
		return nil, err
	}
	announce := false
	news, next, err := pollEntries(ctx, b, cursor, wait, func() ([]entry[v1.Instruction], bool) {
		announce = b.announce
		return b.instructions[clusterID], announce
	})
	if err != nil {
		return nil, err
	}
	return &v1.InstructionList{Cursor: next, Instructions: news, Announce: announce}, nil
}

// SendMessage stores a message. It replaces an earlier message of the same sender with the same
// slot.
func (b *Broker) SendMessage(_ context.Context, clusterID string, msg *v1.Message) error {
	if err := b.recordCall(Call{Operation: SendMessage, ClusterID: clusterID, Body: msg}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.position++
	box := slices.DeleteFunc(b.messages[msg.To], func(e entry[v1.Message]) bool {
		return e.news.From == clusterID && e.news.Slot == msg.Slot
	})
	kept := *msg
	kept.From = clusterID
	b.messages[msg.To] = append(box, entry[v1.Message]{b.position, kept})
	b.notifyChange()
	return nil
}

// ReceiveMessages returns the messages to a cluster since cursor. If there are none, it waits for
// one until the time wait is over.
func (b *Broker) ReceiveMessages(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.MessageList, error) {
	if err := b.recordCall(Call{Operation: ReceiveMessages, ClusterID: clusterID, Cursor: cursor, Wait: wait}); err != nil {
		return nil, err
	}
	news, next, err := pollEntries(ctx, b, cursor, wait, func() ([]entry[v1.Message], bool) { return b.messages[clusterID], false })
	if err != nil {
		return nil, err
	}
	return &v1.MessageList{Cursor: next, Messages: news}, nil
}

// findReservation returns the reservation with a key or name, or nil. The caller must hold mu.
func (b *Broker) findReservation(clusterID, nameOrKey string) *reservation {
	if r, ok := b.reservations[clusterID+"/"+nameOrKey]; ok {
		return r
	}
	for at, r := range b.reservations {
		if strings.HasPrefix(at, clusterID+"/") && r.state != nil && r.state.Name == nameOrKey {
			return r
		}
	}
	return nil
}

func cloneReservation(r *v1.Reservation) *v1.Reservation {
	c := *r
	c.Resources = maps.Clone(r.Resources)
	c.Placements = slices.Clone(r.Placements)
	return &c
}
