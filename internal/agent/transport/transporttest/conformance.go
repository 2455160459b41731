package transporttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Harness contains a broker and a way to connect to it with the transport under test.
type Harness struct {
	// Broker receives the calls of the transport.
	Broker *Broker
	// Open returns a transport for a cluster. The test closes it.
	Open func(t *testing.T, clusterID string) transport.Transport
}

const (
	consumer = "rome"
	key      = "0b2f7c1e-rome.1"
	// promptly limits everything that should not take long. It is less than the minute that a poll
	// may wait.
	promptly = 50 * time.Second
)

// Run checks that a transport behaves as package transport describes. It calls setup for every
// test; setup cleans up with t.Cleanup.
func Run(t *testing.T, setup func(t *testing.T) Harness) {
	t.Helper()
	tests := map[string]func(*testing.T, *bench){
		"calls arrive as they were made":                           callsArrive,
		"a repeated request is one reservation":                    repeatedRequest,
		"a key with another request is refused":                    reusedKey,
		"a released key stays shut":                                releasedKey,
		"a release that nobody asked for shuts the key":            unknownRelease,
		"quotes are asked for, held and released":                  quotesArrive,
		"a change can be repeated and not overtaken":               changeRepeats,
		"a release can be repeated":                                repeatedRelease,
		"a call that failed for now succeeds when it is repeated":  temporaryFailure,
		"refusals keep their reason and detail":                    refusalKeepsReason,
		"a broker that cannot answer is unreachable":               cannotAnswer,
		"a defect of the broker stays in its log":                  defectStaysHidden,
		"a cluster speaks for itself alone":                        foreignIdentity,
		"a poll returns what is there at once":                     pollReturnsAtOnce,
		"a poll returns on news":                                   pollReturnsOnNews,
		"a poll without news ends empty":                           pollEndsEmpty,
		"a cursor leaves out what was seen":                        cursorLeavesOut,
		"a cursor of another journal starts over":                  foreignCursor,
		"instructions are the cluster's own":                       ownInstructions,
		"messages reach their cluster with their sender":           messagesArrive,
		"a message takes the place of an earlier one of its slot":  messageSlots,
		"a poll for messages returns on news":                      messagePoll,
		"a caller that gives up is answered at once":               givenUp,
		"a caller that gave up before is answered at once":         givenUpBefore,
		"a closed transport ends its calls and refuses further":    closeEndsCalls,
		"calls side by side do not disturb each other":             concurrentCalls,
		"a deadline of the caller counts as a broker out of reach": deadlineExceeded,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, setup(t)))
		})
	}
}

// bench is a Harness with an open transport of the cluster consumer.
type bench struct {
	Harness
	transport.Transport
	ctx context.Context
}

func newBench(t *testing.T, h Harness) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*promptly)
	t.Cleanup(cancel)
	return &bench{Harness: h, Transport: openTransport(t, h, consumer), ctx: ctx}
}

func openTransport(t *testing.T, h Harness, clusterID string) transport.Transport {
	t.Helper()
	tr := h.Open(t, clusterID)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return tr
}

func callsArrive(t *testing.T, b *bench) {
	adv, req, report := newAdvertisement(consumer), newRequest(), &v1.StatusReport{
		Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateNotReady, Reason: "Peering", Message: "no route \"yet\"\n",
	}
	pong := mustSucceed(b.Ping(b.ctx))(t)
	if pong.ApiVersion != "v1" || pong.JournalID == "" {
		t.Errorf("Ping = %+v; want version v1 and a journal", pong)
	}
	receipt := mustSucceed(b.PublishAdvertisement(b.ctx, adv))(t)
	if diff := cmp.Diff(adv.Allocatable, receipt.Available); diff != "" || receipt.NextSeconds != 30 {
		t.Errorf("receipt = %+v (-want +got):\n%s", receipt, diff)
	}
	reservation := mustSucceed(b.RequestReservation(b.ctx, key, req))(t)
	asked := *req
	asked.RequesterID = consumer
	want := mustSucceed(Grant(reservation.Name, &asked))(t)
	want.Instruction.Key = key
	if diff := cmp.Diff(want, reservation); diff != "" {
		t.Errorf("reservation (-want +got):\n%s", diff)
	}
	if err := b.ReportStatus(b.ctx, reservation.Name, report); err != nil {
		t.Errorf("ReportStatus: %v", err)
	}
	for operation, want := range map[Operation]Call{
		PublishAdvertisement: {Operation: PublishAdvertisement, ClusterID: consumer, Body: adv},
		RequestReservation:   {Operation: RequestReservation, ClusterID: consumer, Name: key, Body: req},
		ReportStatus:         {Operation: ReportStatus, ClusterID: consumer, Name: reservation.Name, Body: report},
	} {
		if diff := cmp.Diff([]Call{want}, b.Broker.Calls(operation)); diff != "" {
			t.Errorf("calls of %s (-want +got):\n%s", operation, diff)
		}
	}
}

func repeatedRequest(t *testing.T, b *bench) {
	first := mustSucceed(b.RequestReservation(b.ctx, key, newRequest()))(t)
	for range 3 {
		again := mustSucceed(b.RequestReservation(b.ctx, key, newRequest()))(t)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("repetition (-first +again):\n%s", diff)
		}
	}
	if names := b.Broker.Reservations(); len(names) != 1 {
		t.Errorf("reservations %q; want one", names)
	}
}

func reusedKey(t *testing.T, b *bench) {
	mustSucceed(b.RequestReservation(b.ctx, key, newRequest()))(t)
	other := newRequest()
	other.Resources["cpu"] = "9"
	_, err := b.RequestReservation(b.ctx, key, other)
	wantReason(t, err, fault.KeyReused)
}

func releasedKey(t *testing.T, b *bench) {
	mustSucceed(b.RequestReservation(b.ctx, key, newRequest()))(t)
	const user = "CORP\\zoë <zoe@example.com>&x=1"
	released := mustSucceed(b.ReleaseReservation(b.ctx, key, user))(t)
	if calls := b.Broker.Calls(ReleaseReservation); len(calls) != 1 || calls[0].User != user {
		t.Errorf("calls %+v; want one in the name of %q", calls, user)
	}
	if released == nil || released.Phase != v1.ReservationPhaseReleased {
		t.Errorf("ReleaseReservation = %+v; want it Released", released)
	}
	_, err := b.RequestReservation(b.ctx, key, newRequest())
	wantReason(t, err, fault.Released)
}

func quotesArrive(t *testing.T, b *bench) {
	quote := mustSucceed(b.RequestQuote(b.ctx, "", newRequest()))(t)
	if quote.ClusterID != Provider || quote.Name != "" {
		t.Errorf("quote %+v; want one for %s that is not held", quote, Provider)
	}
	held := newRequest()
	held.HoldSeconds = 60
	mustSucceed(b.RequestQuote(b.ctx, key, held))(t)
	if err := b.ReleaseQuote(b.ctx, key); err != nil {
		t.Errorf("ReleaseQuote: %v", err)
	}
	for operation, want := range map[Operation][]Call{
		RequestQuote: {{Operation: RequestQuote, ClusterID: consumer, Body: newRequest()}, {Operation: RequestQuote, ClusterID: consumer, Name: key, Body: held}},
		ReleaseQuote: {{Operation: ReleaseQuote, ClusterID: consumer, Name: key}},
	} {
		if diff := cmp.Diff(want, b.Broker.Calls(operation)); diff != "" {
			t.Errorf("calls of %s (-want +got):\n%s", operation, diff)
		}
	}
}

func changeRepeats(t *testing.T, b *bench) {
	mustSucceed(b.RequestReservation(b.ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1"}, DurationSeconds: 600}))(t)
	longer := &v1.ReservationChange{Generation: 2, DurationSeconds: 1200}
	for range 2 {
		if r := mustSucceed(b.ChangeReservation(b.ctx, key, longer))(t); r.RemainingSeconds == nil || *r.RemainingSeconds <= 600 {
			t.Errorf("ChangeReservation = %+v; want it to be held for longer", r)
		}
	}
	_, err := b.ChangeReservation(b.ctx, key, &v1.ReservationChange{Generation: 1, DurationSeconds: 900})
	wantReason(t, err, fault.Conflict)
	_, err = b.ChangeReservation(b.ctx, "nobody-asked", longer)
	wantReason(t, err, fault.NotFound)
}

func unknownRelease(t *testing.T, b *bench) {
	if r := mustSucceed(b.ReleaseReservation(b.ctx, key, ""))(t); r != nil {
		t.Errorf("ReleaseReservation of nothing = %+v; want nil", r)
	}
	_, err := b.RequestReservation(b.ctx, key, newRequest())
	wantReason(t, err, fault.Released)
}

func repeatedRelease(t *testing.T, b *bench) {
	name := mustSucceed(b.RequestReservation(b.ctx, key, newRequest()))(t).Name
	first := mustSucceed(b.ReleaseReservation(b.ctx, name, ""))(t)
	again := mustSucceed(b.ReleaseReservation(b.ctx, name, ""))(t)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repetition (-first +again):\n%s", diff)
	}
}

func temporaryFailure(t *testing.T, b *bench) {
	b.Broker.Fail(RequestReservation, fault.New(fault.Unavailable, "journal"), fault.New(fault.Internal, "defect"))
	for range 3 {
		r, err := b.RequestReservation(b.ctx, key, newRequest())
		if err == nil {
			if names := b.Broker.Reservations(); len(names) != 1 || names[0] != r.Name {
				t.Errorf("reservations %q; want %q alone", names, r.Name)
			}
			return
		}
		if !errors.Is(err, transport.ErrUnreachable) {
			t.Errorf("RequestReservation: %v; want it unreachable for now", err)
		}
	}
	t.Error("three repetitions after two failures did not succeed")
}

func refusalKeepsReason(t *testing.T, b *bench) {
	for _, want := range []*fault.Error{
		fault.New(fault.Invalid, "cpu %q is no quantity", "four"),
		fault.New(fault.KeyReused, "other body"),
		fault.New(fault.Released, "gone"),
		fault.New(fault.NotFound, "none"),
		fault.New(fault.Forbidden, "no"),
		fault.New(fault.Conflict, "not now"),
		{
			Reason: fault.NoCandidate, Detail: "nobody has 4 cpu", RetryAfter: 30 * time.Second,
			Candidates: []v1.Candidate{{ClusterID: Provider, Reason: "TooSmall", Message: "cpu: 2 of 4"}},
			Rejected:   map[string]int32{"TooSmall": 1},
		},
	} {
		b.Broker.Fail(RequestReservation, want)
		_, err := b.RequestReservation(b.ctx, key, newRequest())
		got, ok := errors.AsType[*fault.Error](err)
		if !ok || errors.Is(err, transport.ErrUnreachable) {
			t.Errorf("%s: got %v; want a refusal, not an unreachable broker", want.Reason, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Reason, diff)
		}
	}
	if n := len(b.Broker.Calls(RequestReservation)); n != 7 {
		t.Errorf("%d calls for 7 refusals: a refusal was asked for again", n)
	}
}

func cannotAnswer(t *testing.T, b *bench) {
	for _, reason := range []fault.Reason{fault.Unavailable, fault.TooManyRequests} {
		b.Broker.Fail(PublishAdvertisement, &fault.Error{Reason: reason, Detail: "later", RetryAfter: time.Hour})
		_, err := b.PublishAdvertisement(b.ctx, newAdvertisement(consumer))
		if !errors.Is(err, transport.ErrUnreachable) {
			t.Errorf("%s: %v does not wrap ErrUnreachable", reason, err)
		}
		got, ok := errors.AsType[*fault.Error](err)
		if !ok || got.Reason != reason || got.RetryAfter != time.Hour {
			t.Errorf("%s: %+v; want the broker's wish to be asked in an hour", reason, got)
		}
	}
}

func defectStaysHidden(t *testing.T, b *bench) {
	for range 8 { // more often than a transport retries
		b.Broker.Fail(Ping, errors.New("canary-4711"))
	}
	_, err := b.Ping(b.ctx)
	wantReason(t, err, fault.Internal)
	if !errors.Is(err, transport.ErrUnreachable) || strings.Contains(err.Error(), "canary") {
		t.Errorf("Ping: %v; want it unreachable, without the broker's own words", err)
	}
}

func foreignIdentity(t *testing.T, b *bench) {
	_, err := b.PublishAdvertisement(b.ctx, newAdvertisement("berlin"))
	wantReason(t, err, fault.Forbidden)
	req := newRequest()
	req.RequesterID = "berlin"
	_, err = b.RequestReservation(b.ctx, key, req)
	wantReason(t, err, fault.Forbidden)
	err = b.SendMessage(b.ctx, &v1.Message{From: "berlin", To: Provider, Slot: "s", Body: []byte("x")})
	wantReason(t, err, fault.Forbidden)
	for _, operation := range []Operation{PublishAdvertisement, RequestReservation, SendMessage} {
		if calls := b.Broker.Calls(operation); len(calls) != 0 {
			t.Errorf("%s in another's name reached the broker: %+v", operation, calls)
		}
	}

	req.RequesterID = consumer
	mustSucceed(b.RequestReservation(b.ctx, key, req))(t)
	_, err = openTransport(t, b.Harness, "berlin").RequestReservation(b.ctx, key, newRequest())
	if err != nil || len(b.Broker.Reservations()) != 2 {
		t.Errorf("another cluster's request with the same key: %v; want a reservation of its own", err)
	}
}

func pollReturnsAtOnce(t *testing.T, b *bench) {
	want := newInstruction("res-0000000001")
	b.Broker.Instruct(consumer, want)
	list := mustSucceed(b.FetchInstructions(b.ctx, "", time.Minute))(t)
	if diff := cmp.Diff([]v1.Instruction{want}, list.Instructions); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
}

func pollReturnsOnNews(t *testing.T, b *bench) {
	cursor := mustSucceed(b.FetchInstructions(b.ctx, "", 0))(t).Cursor
	got := startCall(func() (*v1.InstructionList, error) { return b.FetchInstructions(b.ctx, cursor, time.Minute) })
	awaitCalls(t, b, FetchInstructions, 2)
	b.Broker.Instruct(consumer, newInstruction("res-0000000001"))
	list := mustSucceed(awaitResult(t, got))(t)
	if len(list.Instructions) != 1 || list.Cursor == cursor {
		t.Errorf("poll = %+v; want the news and a new cursor", list)
	}
}

func pollEndsEmpty(t *testing.T, b *bench) {
	list := mustSucceed(b.FetchInstructions(b.ctx, "", time.Second))(t)
	if len(list.Instructions) != 0 || list.Cursor == "" {
		t.Errorf("poll = %+v; want nothing, and a cursor", list)
	}
	calls := b.Broker.Calls(FetchInstructions)
	if len(calls) != 1 || calls[0].Wait != time.Second {
		t.Errorf("calls %+v; want one that waits a second", calls)
	}
}

func cursorLeavesOut(t *testing.T, b *bench) {
	b.Broker.Instruct(consumer, newInstruction("res-0000000001"))
	cursor := mustSucceed(b.FetchInstructions(b.ctx, "", 0))(t).Cursor
	b.Broker.Instruct(consumer, newInstruction("res-2"))
	for range 2 { // the same cursor gives the same answer
		list := mustSucceed(b.FetchInstructions(b.ctx, cursor, 0))(t)
		if diff := cmp.Diff([]v1.Instruction{newInstruction("res-2")}, list.Instructions); diff != "" {
			t.Errorf("instructions since the cursor (-want +got):\n%s", diff)
		}
	}
}

func foreignCursor(t *testing.T, b *bench) {
	b.Broker.Instruct(consumer, newInstruction("res-0000000001"))
	cursor := mustSucceed(b.FetchInstructions(b.ctx, "", 0))(t).Cursor
	b.Broker.ChangeJournal()
	if list := mustSucceed(b.FetchInstructions(b.ctx, cursor, time.Minute))(t); len(list.Instructions) != 1 {
		t.Errorf("instructions after the journal changed = %+v; want all", list.Instructions)
	}
}

func ownInstructions(t *testing.T, b *bench) {
	b.Broker.Instruct(Provider, newInstruction("res-0000000001"))
	if list := mustSucceed(b.FetchInstructions(b.ctx, "", 0))(t); len(list.Instructions) != 0 {
		t.Errorf("instructions of another cluster: %+v", list.Instructions)
	}
}

func messagesArrive(t *testing.T, b *bench) {
	body := []byte("\x00\xff not text")
	runtest.Check(t, b.SendMessage(b.ctx, &v1.Message{To: Provider, Slot: "nonce", Body: body}))
	list := mustSucceed(openTransport(t, b.Harness, Provider).ReceiveMessages(b.ctx, "", time.Minute))(t)
	want := []v1.Message{{From: consumer, To: Provider, Slot: "nonce", Body: body}}
	if diff := cmp.Diff(want, list.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if list := mustSucceed(b.ReceiveMessages(b.ctx, "", 0))(t); len(list.Messages) != 0 {
		t.Errorf("sender received %+v", list.Messages)
	}
}

func messageSlots(t *testing.T, b *bench) {
	for _, m := range []v1.Message{
		{To: Provider, Slot: "a", Body: []byte("1")}, {To: Provider, Slot: "b", Body: []byte("2")}, {To: Provider, Slot: "a", Body: []byte("3")},
	} {
		runtest.Check(t, b.SendMessage(b.ctx, &m))
	}
	var got []string
	for _, m := range mustSucceed(openTransport(t, b.Harness, Provider).ReceiveMessages(b.ctx, "", 0))(t).Messages {
		got = append(got, m.Slot+string(m.Body))
	}
	if diff := cmp.Diff([]string{"b2", "a3"}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func messagePoll(t *testing.T, b *bench) {
	got := startCall(func() (*v1.MessageList, error) { return b.ReceiveMessages(b.ctx, "", time.Minute) })
	awaitCalls(t, b, ReceiveMessages, 1)
	runtest.Check(t, openTransport(t, b.Harness, Provider).SendMessage(b.ctx, &v1.Message{To: consumer, Slot: "s", Body: []byte("x")}))
	list := mustSucceed(awaitResult(t, got))(t)
	if len(list.Messages) != 1 {
		t.Errorf("poll = %+v; want the message", list)
	}
	if again := mustSucceed(b.ReceiveMessages(b.ctx, list.Cursor, 0))(t); len(again.Messages) != 0 {
		t.Errorf("messages since the cursor: %+v; want none", again.Messages)
	}
}

func givenUp(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	got := startCall(func() (*v1.InstructionList, error) { return b.FetchInstructions(ctx, "", time.Minute) })
	awaitCalls(t, b, FetchInstructions, 1)
	cancel()
	_, err := awaitResult(t, got)
	if !errors.Is(err, context.Canceled) || errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("poll that was given up: %v; want context.Canceled, and no word on the broker", err)
	}
}

func givenUpBefore(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.FetchInstructions(ctx, "", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("FetchInstructions: %v; want context.Canceled", err)
	}
}

func deadlineExceeded(t *testing.T, b *bench) {
	ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
	defer cancel()
	_, err := b.FetchInstructions(ctx, "", time.Minute)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("FetchInstructions: %v; want it unreachable for a deadline", err)
	}
}

func closeEndsCalls(t *testing.T, b *bench) {
	tr := b.Open(t, consumer)
	got := startCall(func() (*v1.InstructionList, error) { return tr.FetchInstructions(b.ctx, "", time.Minute) })
	awaitCalls(t, b, FetchInstructions, 1)
	for range 2 {
		if err := tr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := awaitResult(t, got); err == nil {
		t.Error("a poll outlived its transport")
	}
	before := len(b.Broker.Calls(Ping))
	if _, err := tr.Ping(b.ctx); err == nil || len(b.Broker.Calls(Ping)) != before {
		t.Errorf("Ping on a closed transport: %v; want an error and no call", err)
	}
}

func concurrentCalls(t *testing.T, b *bench) {
	poll := startCall(func() (*v1.InstructionList, error) { return b.FetchInstructions(b.ctx, "", time.Minute) })
	var asked []chan result[v1.Reservation]
	for i := range 16 {
		asked = append(asked, startCall(func() (*v1.Reservation, error) {
			return b.RequestReservation(b.ctx, key+string(rune('a'+i%8)), newRequest())
		}))
	}
	for _, a := range asked {
		mustSucceed(awaitResult(t, a))(t)
	}
	if names := b.Broker.Reservations(); len(names) != 8 {
		t.Errorf("%d reservations for 8 keys asked twice each", len(names))
	}
	b.Broker.Instruct(consumer, newInstruction("res-0000000001"))
	mustSucceed(awaitResult(t, poll))(t)
}

func newAdvertisement(clusterID string) *v1.Advertisement {
	return &v1.Advertisement{
		ClusterID: clusterID, ClusterName: "Roma", EndpointURL: "https://rome.example:6443", Epoch: 1 << 40, Sequence: 7,
		Timestamp:   time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC),
		Topology:    v1.Topology{Region: "eu", Zone: "it"},
		Capacity:    v1.Amounts{"cpu": "8", "memory": "16Gi", "example.com/gpu": "2"},
		Allocatable: v1.Amounts{"cpu": "7500m", "memory": "15Gi", "example.com/gpu": "2"},
		Allocated:   v1.Amounts{},
		NodeShapes:  []v1.NodeShape{{Count: 2, Free: v1.Amounts{"cpu": "3"}}},
		Cost:        v1.Cost{CPUCost: "0.04", Currency: "EUR", ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{"example.com/gpu": "1.5"}},
		Usage:       []v1.Usage{{Reservation: "res-0000000001", Placement: 1, Used: v1.Amounts{"cpu": "1"}}},
	}
}

func newRequest() *v1.ReservationRequest {
	return &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "4", "memory": "8Gi"}, DurationSeconds: 3600, Priority: 10, Tenant: "lab"}
}

func newInstruction(reservation string) v1.Instruction {
	remaining := 59.5
	return v1.Instruction{
		Reservation: reservation, Placement: 2, Role: v1.InstructionRoleProvider, State: v1.InstructionStateHold,
		ConsumerID: Provider, ProviderID: consumer, Resources: v1.Amounts{"cpu": "4"}, RemainingSeconds: &remaining,
	}
}

func wantReason(t *testing.T, err error, want fault.Reason) {
	t.Helper()
	if got := fault.ReasonOf(err); got != want {
		t.Errorf("error %v has reason %q; want %q", err, got, want)
	}
}

func mustSucceed[T any](got *T, err error) func(*testing.T) *T {
	return func(t *testing.T) *T {
		t.Helper()
		runtest.Check(t, err)
		return got
	}
}

type result[T any] struct {
	got *T
	err error
}

func startCall[T any](call func() (*T, error)) chan result[T] {
	done := make(chan result[T], 1)
	go func() {
		got, err := call()
		done <- result[T]{got, err}
	}()
	return done
}

func awaitResult[T any](t *testing.T, done chan result[T]) (*T, error) {
	t.Helper()
	select {
	case r := <-done:
		return r.got, r.err
	case <-time.After(promptly):
		t.Fatalf("call did not end within %s", promptly)
		return nil, nil
	}
}

func awaitCalls(t *testing.T, b *bench, operation Operation, n int) {
	t.Helper()
	runtest.Check(t, b.Broker.AwaitCalls(b.ctx, operation, n))
}
