// Package fake is an in-memory broker for tests of its clients. It grants every request, unless
// a script says otherwise, and records what it receives.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Broker is usable as its zero value and safe for concurrent use.
type Broker struct {
	// Decide answers the first request with a key; nil grants on cluster paris. An error leaves no
	// reservation.
	Decide func(name string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// Receipt answers advertisements; nil means an empty one.
	Receipt *v1.AdvertisementReceipt
	// RefuseChange is the answer to every change; nil accepts them.
	RefuseChange error
	// mu guards the following.
	mu           sync.Mutex
	down         bool
	beforeAnswer func(ctx context.Context) error
	news         chan struct{}
	byKey        map[string]*v1.Reservation
	asked        map[string]string // the request of each key
	shut         map[string]bool
	requests     []string
	advertised   []*v1.Advertisement
	reports      []Report
	instructions []v1.Instruction
	messages     []v1.Message
	announce     bool
	holdings     []*v1.Holdings
	changes      []v1.ReservationChange
}

var _ transport.Transport = (*Broker)(nil)

// Report is a StatusReport and its reservation.
type Report struct {
	Reservation string
	v1.StatusReport
}

// SetDown makes the broker unreachable, or reachable again.
func (b *Broker) SetDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
	b.notifyPolls()
}

// SetBeforeAnswer sets what runs after a reservation is stored and before the requester gets
// the answer. An error loses the answer.
func (b *Broker) SetBeforeAnswer(f func(ctx context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beforeAnswer = f
}

// Instruct appends an instruction for the caller.
func (b *Broker) Instruct(in v1.Instruction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instructions = append(b.instructions, in)
	b.notifyPolls()
}

// Post appends a message for the caller.
func (b *Broker) Post(m v1.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, m)
	b.notifyPolls()
}

// Requests returns the keys of all requests, including repetitions.
func (b *Broker) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Advertised returns everything that was published.
func (b *Broker) Advertised() []*v1.Advertisement {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.advertised)
}

// Reports returns every status report.
func (b *Broker) Reports() []Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.reports)
}

// Held returns, sorted, the keys of reservations that hold capacity.
func (b *Broker) Held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for key, r := range b.byKey {
		if r.Phase == v1.ReservationPhaseReserved || r.Phase == v1.ReservationPhaseActive {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// PublishAdvertisement implements transport.BrokerCommunicator.
func (b *Broker) PublishAdvertisement(_ context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, newUnreachable()
	}
	b.advertised = append(b.advertised, adv)
	if b.Receipt == nil {
		return &v1.AdvertisementReceipt{}, nil
	}
	return b.Receipt, nil
}

// RequestReservation implements transport.BrokerCommunicator.
func (b *Broker) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	answer, err := b.reserveKey(key, req)
	b.mu.Lock()
	before := b.beforeAnswer
	b.mu.Unlock()
	if err == nil && before != nil {
		err = before(ctx)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (b *Broker) reserveKey(key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, newUnreachable()
	}
	b.requests = append(b.requests, key)
	if b.shut[key] {
		return nil, fault.New(fault.Released, "reservation %q was released", key)
	}
	if known, ok := b.byKey[key]; ok {
		if b.asked[key] != bodyOf(req.DurationSeconds, req.Resources) {
			return nil, fault.New(fault.KeyReused, "key %q belongs to reservation %q, which asks for something else", key, known.Name)
		}
		answer := *known
		return &answer, nil
	}
	decide := b.Decide
	if decide == nil {
		decide = Grant
	}
	r, err := decide(fmt.Sprintf("res-%010d", len(b.byKey)+1), req)
	if err != nil {
		return nil, err
	}
	if b.byKey == nil {
		b.byKey, b.asked = map[string]*v1.Reservation{}, map[string]string{}
	}
	b.asked[key] = bodyOf(req.DurationSeconds, req.Resources)
	r.Instruction.Key = key
	b.byKey[key] = r
	answer := *r
	return &answer, nil
}

// Grant grants the request on cluster paris, to be renewed every minute.
func Grant(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	r := &v1.Reservation{
		Name: name, Phase: v1.ReservationPhaseReserved, RequesterID: req.RequesterID, Resources: req.Resources,
		ReservedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Placements: []v1.Placement{{Number: 1, ClusterID: "paris", State: v1.PlacementStateAssigned}},
		Candidates: []v1.Candidate{{ClusterID: "paris", Score: "75.00"}, {ClusterID: "berlin", Score: "50.00", Reason: "LowerScore"}},
		Instruction: v1.Instruction{
			Reservation: name, Placement: 1, Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold,
			ConsumerID: req.RequesterID, ProviderID: "paris", ProviderEndpoint: "https://paris.example:6443", Resources: req.Resources,
		},
	}
	if req.DurationSeconds > 0 {
		seconds := float64(req.DurationSeconds)
		r.RemainingSeconds, r.Instruction.RemainingSeconds = &seconds, &seconds
	} else {
		r.RenewSeconds = 60
	}
	return r, nil
}

// ChangeReservation implements transport.Changer.
func (b *Broker) ChangeReservation(_ context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, newUnreachable()
	}
	b.changes = append(b.changes, *change)
	if b.RefuseChange != nil {
		return nil, b.RefuseChange
	}
	r, ok := b.byKey[key]
	if !ok {
		return nil, fault.New(fault.NotFound, "no reservation %q", key)
	}
	if r.RemainingSeconds = nil; change.DurationSeconds > 0 {
		left := float64(change.DurationSeconds)
		r.RemainingSeconds = &left
	}
	b.asked[key], r.Instruction.RemainingSeconds = bodyOf(change.DurationSeconds, change.Resources), r.RemainingSeconds
	if r.Instruction.Reservation != "" && !maps.Equal(r.Resources, change.Resources) {
		r.Change = &v1.ChangeState{
			Generation: change.Generation, State: v1.ChangeStateStatePending, Resources: change.Resources, Message: "waiting for paris to agree",
		}
		r.RenewSeconds = 2
	}
	answer := *r
	return &answer, nil
}

// Agree makes the provider agree to every pending change of resources.
func (b *Broker) Agree() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.byKey {
		if r.Change != nil {
			r.Resources, r.Instruction.Resources, r.Change = r.Change.Resources, r.Change.Resources, nil
		}
	}
}

func bodyOf(seconds int64, resources v1.Amounts) string { return fmt.Sprint(seconds, resources) }

// Changes returns the requested changes.
func (b *Broker) Changes() []v1.ReservationChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.changes)
}

// ReleaseReservation implements transport.Releaser.
func (b *Broker) ReleaseReservation(_ context.Context, nameOrKey string) (*v1.Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, newUnreachable()
	}
	for key, r := range b.byKey {
		if key == nameOrKey || r.Name == nameOrKey {
			r.Phase = v1.ReservationPhaseReleasing
			answer := *r
			return &answer, nil
		}
	}
	if b.shut == nil {
		b.shut = map[string]bool{}
	}
	b.shut[nameOrKey] = true
	return nil, nil
}

// ReportStatus implements transport.StatusReporter.
func (b *Broker) ReportStatus(_ context.Context, reservation string, report *v1.StatusReport) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return newUnreachable()
	}
	b.reports = append(b.reports, Report{Reservation: reservation, StatusReport: *report})
	return nil
}

// AskHoldings makes polls ask for holdings until they are announced.
func (b *Broker) AskHoldings() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announce = true
	b.notifyPolls()
}

// Announced returns all announced holdings.
func (b *Broker) Announced() []*v1.Holdings {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.holdings)
}

// AnnounceHoldings implements transport.Announcer.
func (b *Broker) AnnounceHoldings(_ context.Context, h *v1.Holdings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return newUnreachable()
	}
	b.announce = false
	b.holdings = append(b.holdings, h)
	return nil
}

// SendMessage implements transport.Messenger.
func (b *Broker) SendMessage(_ context.Context, msg *v1.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return newUnreachable()
	}
	b.messages = append(b.messages, *msg)
	b.notifyPolls()
	return nil
}

// FetchInstructions implements transport.BrokerCommunicator.
func (b *Broker) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	var out *v1.InstructionList
	err := b.poll(ctx, wait, func() bool {
		from := parsePosition(cursor, len(b.instructions))
		out = &v1.InstructionList{Cursor: strconv.Itoa(len(b.instructions)), Instructions: slices.Clone(b.instructions[from:]), Announce: b.announce}
		return len(out.Instructions) > 0 || b.announce
	})
	return out, err
}

// ReceiveMessages implements transport.Messenger.
func (b *Broker) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	var out *v1.MessageList
	err := b.poll(ctx, wait, func() bool {
		from := parsePosition(cursor, len(b.messages))
		out = &v1.MessageList{Cursor: strconv.Itoa(len(b.messages)), Messages: slices.Clone(b.messages[from:])}
		return len(out.Messages) > 0
	})
	return out, err
}

// Ping implements transport.BrokerCommunicator.
func (b *Broker) Ping(context.Context) (*v1.Pong, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, newUnreachable()
	}
	return &v1.Pong{ApiVersion: "v1", ApiMinor: v1.Minor, JournalID: "fake", Version: "fake"}, nil
}

// Close implements transport.BrokerCommunicator.
func (b *Broker) Close() error { return nil }

// poll calls look at every change until it finds something or wait is over.
func (b *Broker) poll(ctx context.Context, wait time.Duration, look func() bool) error {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		down, found, news := b.down, !b.down && look(), b.subscribe()
		b.mu.Unlock()
		if down {
			return newUnreachable()
		}
		if found {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", transport.ErrUnreachable, ctx.Err())
		case <-timeout.C:
			return nil
		case <-news:
		}
	}
}

func (b *Broker) subscribe() <-chan struct{} {
	if b.news == nil {
		b.news = make(chan struct{})
	}
	return b.news
}

func (b *Broker) notifyPolls() {
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
}

func parsePosition(cursor string, length int) int {
	n, err := strconv.Atoi(cursor)
	if err != nil || n < 0 || n > length {
		return 0
	}
	return n
}

func newUnreachable() error {
	return fmt.Errorf("%w: connection refused", transport.ErrUnreachable)
}
