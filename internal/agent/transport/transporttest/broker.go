// Package transporttest is a conformance suite for transports, with an in-memory broker.
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

// Operation of a broker, as named in the API description.
type Operation string

// Operations.
const (
	Ping                 Operation = "ping"
	PublishAdvertisement Operation = "publishAdvertisement"
	RequestReservation   Operation = "requestReservation"
	RequestQuote         Operation = "requestQuote"
	ReleaseQuote         Operation = "releaseQuote"
	GetReservation       Operation = "getReservation"
	ReleaseReservation   Operation = "releaseReservation"
	ChangeReservation    Operation = "changeReservation"
	ReportStatus         Operation = "reportStatus"
	FetchInstructions    Operation = "fetchInstructions"
	AnnounceHoldings     Operation = "announceHoldings"
	SendMessage          Operation = "sendMessage"
	ReceiveMessages      Operation = "receiveMessages"
)

// Call is a recorded call. Fields that an operation lacks are zero.
type Call struct {
	Operation Operation
	ClusterID string
	// Name is the name or key of the reservation or quote.
	Name   string
	Cursor string
	Wait   time.Duration
	// Body is a pointer to the API's type.
	Body any
}

// Provider is the cluster on which Broker places every reservation.
const Provider = "paris"

// Broker grants everything, keeps one reservation per key, and forwards instructions and
// messages. It records calls and fails on demand. It is safe for concurrent use.
type Broker struct {
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

// Fail makes the next calls of an operation fail, one per error.
func (b *Broker) Fail(operation Operation, errs ...error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[operation] = append(b.failures[operation], errs...)
}

// Instruct adds an instruction for a cluster.
func (b *Broker) Instruct(clusterID string, instruction v1.Instruction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.position++
	b.instructions[clusterID] = append(b.instructions[clusterID], entry[v1.Instruction]{b.position, instruction})
	b.notifyChange()
}

// ChangeJournal invalidates all cursors, as a restored broker would.
func (b *Broker) ChangeJournal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal++
}

// Calls returns the calls of one operation in order.
func (b *Broker) Calls(operation Operation) []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.callsOf(operation)
}

// AwaitCalls returns once n calls of an operation have arrived, or ctx ends.
func (b *Broker) AwaitCalls(ctx context.Context, operation Operation, n int) error {
	for {
		b.mu.Lock()
		arrived, changed := len(b.callsOf(operation)), b.changed
		b.mu.Unlock()
		if arrived >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d calls of %s, want %d: %w", arrived, operation, n, ctx.Err())
		}
	}
}

// Reservations returns the names of reservations that are not tombstones.
func (b *Broker) Reservations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, r := range b.reservations {
		if r.state != nil {
			names = append(names, r.state.Name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// Ping answers.
func (b *Broker) Ping(context.Context) (*v1.Pong, error) {
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
	return &v1.AdvertisementReceipt{Epoch: max(adv.Epoch, 1), NextSeconds: 30, Reserved: v1.Amounts{}, Available: maps.Clone(adv.Allocatable)}, nil
}

// RequestReservation grants on Provider.
func (b *Broker) RequestReservation(_ context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: RequestReservation, ClusterID: clusterID, Name: key, Body: req}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.reservations[clusterID+"/"+key]
	switch {
	case !ok:
	case known.state == nil || known.state.Phase == v1.ReservationPhaseReleased:
		return nil, fault.New(fault.Released, "key %q was released", key)
	case !reflect.DeepEqual(known.request, *req):
		return nil, fault.New(fault.KeyReused, "key %q came with another request before", key)
	default:
		return cloneReservation(known.state), nil
	}
	state := &v1.Reservation{
		Name:        fmt.Sprintf("res-%010d", len(b.reservations)),
		RequesterID: clusterID,
		Phase:       v1.ReservationPhaseReserved,
		Resources:   maps.Clone(req.Resources),
		Placements:  []v1.Placement{{Number: 1, ClusterID: Provider, State: v1.PlacementStateAssigned}},
	}
	state.Instruction = v1.Instruction{
		Reservation: state.Name, Placement: 1, Key: key, Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold,
		ConsumerID: clusterID, ProviderID: Provider, Resources: state.Resources,
	}
	b.reservations[clusterID+"/"+key] = &reservation{request: *req, state: state}
	return cloneReservation(state), nil
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

// ChangeReservation accepts every change newer than the last.
func (b *Broker) ChangeReservation(_ context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error) {
	if err := b.recordCall(Call{Operation: ChangeReservation, ClusterID: clusterID, Name: nameOrKey, Body: change}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.findReservation(clusterID, nameOrKey)
	switch {
	case r == nil || r.state == nil:
		return nil, fault.New(fault.NotFound, "no reservation %q of cluster %q", nameOrKey, clusterID)
	case change.Generation < r.generation:
		return nil, fault.New(fault.Conflict, "change %d was overtaken by change %d", change.Generation, r.generation)
	}
	left := float64(change.DurationSeconds)
	r.generation, r.request.DurationSeconds, r.state.RemainingSeconds = change.Generation, change.DurationSeconds, &left
	return cloneReservation(r.state), nil
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

// ReportStatus accepts reports on the caller's own reservations, and those of Provider.
func (b *Broker) ReportStatus(_ context.Context, clusterID, name string, report *v1.StatusReport) error {
	if err := b.recordCall(Call{Operation: ReportStatus, ClusterID: clusterID, Name: name, Body: report}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, r := range b.reservations {
		mine := strings.HasPrefix(at, clusterID+"/") || clusterID == Provider
		if mine && r.state != nil && r.state.Name == name {
			return nil
		}
	}
	return fault.New(fault.NotFound, "no reservation %q for cluster %q", name, clusterID)
}

// AnnounceHoldings accepts everything.
func (b *Broker) AnnounceHoldings(_ context.Context, clusterID string, h *v1.Holdings) error {
	return b.recordCall(Call{Operation: AnnounceHoldings, ClusterID: clusterID, Body: h})
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
	news, next, err := pollEntries(ctx, b, cursor, wait, func() []entry[v1.Instruction] { return b.instructions[clusterID] })
	if err != nil {
		return nil, err
	}
	return &v1.InstructionList{Cursor: next, Instructions: news}, nil
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
	news, next, err := pollEntries(ctx, b, cursor, wait, func() []entry[v1.Message] { return b.messages[clusterID] })
	if err != nil {
		return nil, err
	}
	return &v1.MessageList{Cursor: next, Messages: news}, nil
}

// pollEntries returns the entries after cursor, and waits for the first. all is called with mu held.
func pollEntries[T any](ctx context.Context, b *Broker, cursor string, wait time.Duration, all func() []entry[T]) ([]T, string, error) {
	enough := time.NewTimer(wait)
	defer enough.Stop()
	for {
		b.mu.Lock()
		after, next, changed := b.parsePosition(cursor), fmt.Sprintf("%d/%d", b.journal, b.position), b.changed
		var news []T
		for _, e := range all() {
			if e.position > after {
				news = append(news, e.news)
			}
		}
		b.mu.Unlock()
		if len(news) > 0 || wait <= 0 {
			return news, next, nil
		}
		select {
		case <-changed:
		case <-enough.C:
			wait = 0
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// parsePosition needs mu. A cursor of another journal, or ahead of this one, means from the
// start.
func (b *Broker) parsePosition(cursor string) int {
	journal, position, _ := strings.Cut(cursor, "/")
	after, err := strconv.Atoi(position)
	if err != nil || journal != strconv.Itoa(b.journal) || after > b.position {
		return 0
	}
	return after
}

func (b *Broker) recordCall(call Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	b.notifyChange()
	planned := b.failures[call.Operation]
	if len(planned) == 0 {
		return nil
	}
	b.failures[call.Operation] = planned[1:]
	return planned[0]
}

// notifyChange needs mu.
func (b *Broker) notifyChange() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// callsOf needs mu.
func (b *Broker) callsOf(operation Operation) []Call {
	var calls []Call
	for _, c := range b.calls {
		if c.Operation == operation {
			calls = append(calls, c)
		}
	}
	return calls
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
