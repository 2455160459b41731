// Package transporttest has an in-memory broker, a transport to it within the process, and a conformance suite for
// transports.
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

// Provider is the cluster on which Broker places every reservation.
const Provider = "paris"

// Broker grants everything unless Decide says otherwise, keeps one reservation per key, and forwards instructions
// and messages. It records calls and fails on demand. It is safe for concurrent use.
type Broker struct {
	// Decide answers the first request with a key; nil means Grant. After an error, the key is still free. A test
	// may edit a reservation that it returned.
	Decide func(name string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// Receipt answers advertisements; nil reports nothing as reserved.
	Receipt *v1.AdvertisementReceipt
	// RefuseChange answers every change; nil accepts them.
	RefuseChange error

	// mu guards the following.
	mu           sync.Mutex
	calls        []Call
	failures     map[Operation][]error
	journal      int
	position     int
	reservations map[string]*reservation
	instructions map[string][]entry[v1.Instruction]
	messages     map[string][]entry[v1.Message]
	shown        map[string]string
	down         bool
	beforeAnswer func(ctx context.Context) error
	announce     bool // polls ask for holdings
	// changed is closed and replaced at every call and every piece of news.
	changed chan struct{}
}

// reservation is stored under "<cluster>/<key>"; without a state it is a tombstone.
type reservation struct {
	request    v1.ReservationRequest
	state      *v1.Reservation
	generation int64
}

// entry is a piece of news and its position in the journal.
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
		shown:        map[string]string{},
		changed:      make(chan struct{}),
	}
}

// Ping answers.
func (b *Broker) Ping(context.Context, string) (*v1.Pong, error) {
	if err := b.recordCall(Call{Operation: Ping}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &v1.Pong{Version: "test", ApiVersion: "v1", ApiMinor: v1.Minor, JournalID: strconv.Itoa(b.journal)}, nil
}

// PublishAdvertisement reports nothing as reserved.
func (b *Broker) PublishAdvertisement(_ context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if err := b.recordCall(Call{Operation: PublishAdvertisement, ClusterID: clusterID, Body: adv}); err != nil {
		return nil, err
	}
	if b.Receipt != nil {
		return b.Receipt, nil
	}
	return &v1.AdvertisementReceipt{Epoch: max(adv.Epoch, 1), NextSeconds: 30, Reserved: v1.Amounts{}, Available: maps.Clone(adv.Allocatable)}, nil
}

// RequestReservation grants the first request with a key, and answers repetitions with the current state.
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

// reserveKey also returns what runs before the answer.
func (b *Broker) reserveKey(clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, func(context.Context) error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := *req
	asked.RequesterID, asked.Reservation = clusterID, ""
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

// Grant grants the request on Provider. Without a duration it is to be renewed every minute.
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

// RequestQuote always quotes Provider.
func (b *Broker) RequestQuote(_ context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	if err := b.recordCall(Call{Operation: RequestQuote, ClusterID: clusterID, Name: key, Body: req}); err != nil {
		return nil, err
	}
	return &v1.Quote{
		ClusterID: Provider, Resources: maps.Clone(req.Resources), Rejected: map[string]int32{},
		Candidates: []v1.QuotedCandidate{{Candidate: v1.Candidate{ClusterID: Provider, Score: "100.00"}}},
	}, nil
}

// ReleaseQuote accepts everything.
func (b *Broker) ReleaseQuote(_ context.Context, clusterID, nameOrKey string) error {
	return b.recordCall(Call{Operation: ReleaseQuote, ClusterID: clusterID, Name: nameOrKey})
}

// GetReservation finds the caller's own reservation.
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

// ChangeReservation accepts every change newer than the last. Other resources wait until Agree.
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

// ReleaseReservation ends the reservation at once.
func (b *Broker) ReleaseReservation(_ context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: ReleaseReservation, ClusterID: clusterID, Name: nameOrKey}); err != nil {
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

// ReportStatus accepts everything.
func (b *Broker) ReportStatus(_ context.Context, clusterID, name string, report *v1.StatusReport) error {
	return b.recordCall(Call{Operation: ReportStatus, ClusterID: clusterID, Name: name, Body: report})
}

// AnnounceHoldings accepts everything.
func (b *Broker) AnnounceHoldings(_ context.Context, clusterID string, h *v1.Holdings) error {
	if err := b.recordCall(Call{Operation: AnnounceHoldings, ClusterID: clusterID, Body: h}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announce = false
	return nil
}

// Witness stores the cursor.
func (b *Broker) Witness(clusterID, cursor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown[clusterID] = cursor
}

// Shown returns the last cursor that a cluster sent.
func (b *Broker) Shown(clusterID string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown[clusterID]
}

// FetchInstructions returns the instructions since cursor.
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

// SendMessage replaces an earlier message of the same slot.
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

// ReceiveMessages returns the messages to the cluster since cursor.
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

// findReservation needs mu.
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
