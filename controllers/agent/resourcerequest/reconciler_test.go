package resourcerequest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const uid = "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01"

// bench is a Reconciler with its dependencies and one request.
type bench struct {
	*testing.T
	*Reconciler
	broker *transporttest.Direct
	clock  *clocktesting.FakeClock
	client client.Client
	events *events.FakeRecorder
	// standing is what granted returned.
	standing *v1.Reservation
}

func newBench(t *testing.T, edit ...func(*agentv1alpha1.ResourceRequest)) *bench {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	cpu, memory := resource.MustParse("500m"), resource.MustParse("256Mi")
	rr := &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "mine", UID: uid, Generation: 1},
		Spec:       agentv1alpha1.ResourceRequestSpec{CPU: &cpu, Memory: &memory, Priority: 10},
	}
	for _, e := range edit {
		e(rr)
	}
	b := &bench{
		T: t, broker: transporttest.New("rome"), events: events.NewFakeRecorder(64),
		clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	b.client = fakeclient.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&agentv1alpha1.ResourceRequest{}, &agentv1alpha1.ReservationInstruction{}).
		WithObjects(rr, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}).Build()
	b.Reconciler = New(b.client, b.broker, b.events, b.defaults())
	return b
}

func (b *bench) defaults() Options {
	return Options{ClusterID: "rome", InstructionNamespace: "default", Reader: b.client, Clock: b.clock}
}

func withNamespaces(names ...string) func(*agentv1alpha1.ResourceRequest) {
	names = append([]string{}, names...)
	return func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Namespaces = &names }
}

func withDuration(d time.Duration) func(*agentv1alpha1.ResourceRequest) {
	return func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Duration = &metav1.Duration{Duration: d} }
}

// after advances the clock, reconciles once and returns the time until the next reconcile.
func (b *bench) after(d time.Duration) time.Duration {
	b.Helper()
	b.clock.Step(d)
	result, err := b.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "mine"}})
	runtest.Check(b, err)
	return result.RequeueAfter
}

func (b *bench) request() *agentv1alpha1.ResourceRequest {
	b.Helper()
	rr := &agentv1alpha1.ResourceRequest{}
	runtest.Check(b, b.client.Get(b.Context(), client.ObjectKey{Namespace: "team", Name: "mine"}, rr))
	return rr
}

func (b *bench) instructions() []agentv1alpha1.ReservationInstruction {
	b.Helper()
	var list agentv1alpha1.ReservationInstructionList
	runtest.Check(b, b.client.List(b.Context(), &list, client.InNamespace("default")))
	return list.Items
}

// carriedOut acts as the controller of the only instruction.
func (b *bench) carriedOut(edit func(*agentv1alpha1.ReservationInstruction)) {
	b.Helper()
	inst := b.instructions()[0]
	edit(&inst)
	runtest.Check(b, b.client.Status().Update(b.Context(), &inst))
}

// takenDown ends every released instruction.
func (b *bench) takenDown() {
	b.Helper()
	for _, inst := range b.instructions() {
		if !inst.Spec.Release {
			b.Fatalf("instruction %q is not released", inst.Name)
		}
		runtest.Check(b, b.client.Delete(b.Context(), &inst))
	}
}

func (b *bench) delete() {
	b.Helper()
	runtest.Check(b, b.client.Delete(b.Context(), b.request()))
}

func (b *bench) expectGone() {
	b.Helper()
	err := b.client.Get(b.Context(), client.ObjectKey{Namespace: "team", Name: "mine"}, &agentv1alpha1.ResourceRequest{})
	if !apierrors.IsNotFound(err) {
		b.Errorf("the request is still there (%v)", err)
	}
	if held := b.broker.Held(); len(held) > 0 {
		b.Errorf("the broker still holds %v", held)
	}
}

// expectEvent reads all events, one of which must begin with want.
func (b *bench) expectEvent(want string) {
	b.Helper()
	var got []string
	for len(b.events.Events) > 0 {
		got = append(got, <-b.events.Events)
	}
	if !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, want) }) {
		b.Errorf("events %q, want %q", got, want)
	}
}

// expectState compares the phase and the reason of Ready.
func (b *bench) expectState(phase agentv1alpha1.ResourceRequestPhase, reason string) {
	b.Helper()
	rr := b.request()
	ready := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady)
	if ready == nil {
		b.Fatalf("no Ready condition in %+v", rr.Status)
	}
	if rr.Status.Phase != phase || ready.Reason != reason {
		b.Errorf("phase %s, Ready is %s because of %s (%s); want %s because of %s",
			rr.Status.Phase, ready.Status, ready.Reason, ready.Message, phase, reason)
	}
	if rr.Status.ObservedGeneration != rr.Generation {
		b.Errorf("observed generation %d", rr.Status.ObservedGeneration)
	}
}

func nodeReady(inst *agentv1alpha1.ReservationInstruction) {
	inst.Status.NodeName = inst.Name
	inst.Status.Conditions = []metav1.Condition{
		{Type: agentv1alpha1.ConditionPeered, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonPeered},
		{Type: agentv1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonNodeReady, Message: "virtual node is Ready"},
		{Type: agentv1alpha1.ConditionOffloading, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonOffloading},
	}
}

func TestRequestShowsNetworkCondition(t *testing.T) {
	b := newBench(t)
	b.broker.Decide = transporttest.Grant
	b.after(0)
	for _, connected := range []bool{true, false} {
		b.carriedOut(func(inst *agentv1alpha1.ReservationInstruction) {
			nodeReady(inst)
			if connected {
				inst.Status.Conditions = append(inst.Status.Conditions, metav1.Condition{
					Type: agentv1alpha1.ConditionNetworkConnected, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonNetworkConnected, Message: "12ms away",
				})
			}
		})
		b.after(0)
		c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionNetworkConnected)
		if (c != nil) != connected || c != nil && (c.Status != metav1.ConditionTrue || c.Message != "12ms away") {
			t.Errorf("connected %t, and it says %+v", connected, c)
		}
	}
}

func TestRequestBecomesReservedAndActive(t *testing.T) {
	b := newBench(t)
	b.broker.Decide = func(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
		rr := b.request()
		if !rr.Status.Asked || len(rr.Finalizers) != 1 {
			t.Errorf("the broker was asked before status.asked (%t) and finalizer (%v) were written", rr.Status.Asked, rr.Finalizers)
		}
		want := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "500m", "memory": "256Mi"}, Priority: 10, RequesterID: "rome"}
		if diff := cmp.Diff(want, req); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		return transporttest.Grant(name, req)
	}
	if again := b.after(0); again != time.Minute {
		t.Errorf("renews in %s", again)
	}
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	s := b.request().Status
	if s.ReservationName != "res-0000000001" || s.TargetClusterID != "paris" || s.TargetClusterEndpoint != "https://paris.example:6443" ||
		s.ReservedAt == nil || s.ExpiresAt != nil || len(s.Candidates) != 2 {
		t.Errorf("status %+v", s)
	}
	if diff := cmp.Diff([]string{uid}, b.broker.Requests()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	inst := b.instructions()
	if len(inst) != 1 || inst[0].Name != "res-0000000001-1" || inst[0].Spec.RequestRef.UID != uid {
		t.Fatalf("instructions %+v", inst)
	}
	if diff := cmp.Diff([]string{"team"}, inst[0].Spec.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}

	b.carriedOut(nodeReady)
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
	rr := b.request()
	if rr.Status.NodeName != "res-0000000001-1" || !meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionReady) {
		t.Errorf("status %+v", rr.Status)
	}
	want := []string{"Normal Reserved", "Normal NodeReady"}
	if diff := cmp.Diff(want, b.heard()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	b.after(time.Second)
	if more := b.heard(); len(more) > 0 {
		t.Errorf("nothing happened, yet events %v", more)
	}
}

// heard returns the type and reason of each event since the last call.
func (b *bench) heard() []string {
	var out []string
	for len(b.events.Events) > 0 {
		words := strings.Fields(<-b.events.Events)
		out = append(out, words[0]+" "+words[1])
	}
	return out
}

func TestRequestWithDurationIsNotRenewed(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	if again := b.after(0); again != never {
		t.Errorf("asks again in %s", again)
	}
	s := b.request().Status
	if s.ExpiresAt == nil || !s.ExpiresAt.Equal(&metav1.Time{Time: b.clock.Now().Add(time.Hour)}) {
		t.Errorf("expires at %v", s.ExpiresAt)
	}
	b.after(30 * time.Minute)
	if n := len(b.broker.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestRequestWithoutDurationIsRenewedUnderItsKey(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(nodeReady)
	if again := b.after(30 * time.Second); again != 30*time.Second {
		t.Errorf("renews in %s", again)
	}
	if again := b.after(30 * time.Second); again != time.Minute {
		t.Errorf("renews in %s", again)
	}
	if diff := cmp.Diff([]string{uid, uid}, b.broker.Requests()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)

	t.Run("and at once by an agent that was restarted", func(t *testing.T) {
		b.Reconciler = New(b.client, b.broker, b.events, b.defaults())
		b.after(time.Second)
		if n := len(b.broker.Requests()); n != 3 {
			t.Errorf("asked %d times", n)
		}
	})
	t.Run("and what runs stays while the broker is away", func(t *testing.T) {
		b.broker.SetDown(true)
		b.after(time.Minute)
		b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
		c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionReserved)
		if c.Status != metav1.ConditionTrue || c.Reason != agentv1alpha1.ReasonBrokerUnreachable {
			t.Errorf("condition %+v", c)
		}
		b.broker.SetDown(false)
		b.after(time.Minute)
		c = meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionReserved)
		if c.Reason != agentv1alpha1.ReasonReserved {
			t.Errorf("condition %+v", c)
		}
	})
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		answer error
		phase  agentv1alpha1.ResourceRequestPhase
		reason string
		words  []string
	}{
		"no cluster has room": {
			answer: &fault.Error{Reason: fault.NoCandidate, Detail: "none of 2 clusters can hold the request", Candidates: []v1.Candidate{
				{ClusterID: "berlin", Reason: "InsufficientCPU", Message: "needs cpu 500m, has 100m"}, {Reason: "Stale"},
			}},
			phase: agentv1alpha1.RequestFailed, reason: agentv1alpha1.ReasonNoCandidate,
			words: []string{"none of 2 clusters", "; berlin: needs cpu 500m, has 100m", "; another cluster: Stale", "edit the request, or delete and create it"},
		},
		"the broker cannot serve it as it is": {
			answer: fault.New(fault.Invalid, `cpu "0": must be above zero`),
			phase:  agentv1alpha1.RequestFailed, reason: agentv1alpha1.ReasonInvalid, words: []string{"must be above zero"},
		},
		"the agent may not": {
			answer: fault.New(fault.Forbidden, "certificate is revoked"),
			phase:  agentv1alpha1.RequestFailed, reason: agentv1alpha1.ReasonRefused, words: []string{"certificate is revoked"},
		},
		"the key was released before it arrived": {
			answer: fault.New(fault.Released, "released"),
			phase:  agentv1alpha1.RequestReleased, reason: agentv1alpha1.ReasonReleased, words: []string{"has ended"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.broker.Decide = func(string, *v1.ReservationRequest) (*v1.Reservation, error) { return nil, tc.answer }
			if again := b.after(0); again != never {
				t.Errorf("asks again in %s", again)
			}
			b.expectState(tc.phase, tc.reason)
			for _, w := range tc.words {
				if message := b.request().Status.Message; !strings.Contains(message, w) {
					t.Errorf("message %q does not say %q", message, w)
				}
			}
			b.after(time.Hour)
			if n := len(b.broker.Requests()); n != 1 {
				t.Errorf("asked %d times", n)
			}
			b.delete()
			b.after(time.Second)
			b.expectGone()
		})
	}
}

func TestRequestIsRepeatedUnderTheSameKey(t *testing.T) {
	for name, tc := range map[string]struct {
		answer        error
		reason, words string
	}{
		"not reached": {
			fmt.Errorf("%w: connection refused", transport.ErrUnreachable),
			agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer; the request is repeated until it is accepted: broker unreachable: connection refused",
		},
		"cannot write": {
			&fault.Error{Reason: fault.Unavailable, Detail: "no API server", RetryAfter: time.Second},
			agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer; the request is repeated until it is accepted: broker unreachable: no API server",
		},
		"over budget": {
			fmt.Errorf("%w: https://broker: %w", transport.ErrUnreachable, &fault.Error{Reason: fault.TooManyRequests, Detail: "2 of 2 requests wait"}),
			agentv1alpha1.ReasonOverBudget, "this cluster exceeds its budget at the broker; the request is repeated until it is accepted: 2 of 2 requests wait",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			away := true
			b.broker.Decide = func(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
				if away {
					return nil, tc.answer
				}
				return transporttest.Grant(name, req)
			}
			var waits []time.Duration
			wait := time.Duration(0)
			for range 10 {
				wait = b.after(wait)
				waits = append(waits, wait)
			}
			b.expectState(agentv1alpha1.RequestPending, tc.reason)
			if diff := cmp.Diff(tc.words, b.request().Status.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if waits[0] > 2*time.Second || waits[9] < 10*time.Second || waits[9] > lastRetry {
				t.Errorf("waits %v", waits)
			}
			if diff := cmp.Diff([]string{"Warning " + tc.reason}, b.heard()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			away = false
			b.after(lastRetry)
			b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
			for _, key := range b.broker.Requests() {
				if key != uid {
					t.Errorf("asked with key %q", key)
				}
			}
		})
	}
}

func TestQueuedRequestIsPolledUntilGranted(t *testing.T) {
	b := newBench(t)
	queued := &v1.Reservation{Name: "res-0000000001", Phase: v1.ReservationPhaseQueued, Message: "place 3 in the queue"}
	b.broker.Decide = func(string, *v1.ReservationRequest) (*v1.Reservation, error) { return queued, nil }
	if again := b.after(0); again != askAgain {
		t.Errorf("asks again in %s", again)
	}
	b.expectState(agentv1alpha1.RequestQueued, agentv1alpha1.ReasonQueued)
	granted, err := transporttest.Grant("res-0000000001", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "500m"}})
	runtest.Check(t, err)
	*queued = *granted
	b.after(askAgain)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
}

func TestQueuedRequestIsEditedAndReleased(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.broker.Decide = func(string, *v1.ReservationRequest) (*v1.Reservation, error) {
		return &v1.Reservation{
			Name: "res-0000000001", Phase: v1.ReservationPhaseQueued, Message: "waits for capacity, place 3 of 3",
			Queue: &v1.QueuePlace{Position: 3, Reason: v1.QueuePlaceReasonNoCandidate, RemainingSeconds: 60},
		}, nil
	}
	b.after(0)
	b.expectState(agentv1alpha1.RequestQueued, agentv1alpha1.ReasonQueued)
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Duration = &metav1.Duration{Duration: 2 * time.Hour} })
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestQueued, agentv1alpha1.ReasonQueued)
	if diff := cmp.Diff([]v1.ReservationChange{{Generation: 2, DurationSeconds: 7200, Resources: v1.Amounts{"cpu": "500m", "memory": "256Mi"}}}, b.broker.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	rr := b.request()
	if rr.Status.Queue == nil || rr.Status.Queue.Position != 3 || !meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionChanged) {
		t.Errorf("queue %+v, conditions %+v", rr.Status.Queue, rr.Status.Conditions)
	}
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Release = true })
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
	if queue := b.request().Status.Queue; queue != nil {
		t.Errorf("it is released, and has place %+v", queue)
	}
}

func TestDeletionGivesEverythingBack(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	b.delete()
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonReleasing)
	if held := b.broker.Held(); len(held) > 0 {
		t.Errorf("the broker still holds %v", held)
	}
	b.after(time.Second)
	b.takenDown()
	b.after(time.Second)
	b.expectGone()
}

func TestDeletionWhileTheRequestIsInFlight(t *testing.T) {
	lost := fmt.Errorf("%w: connection reset", transport.ErrUnreachable)
	for name, tc := range map[string]struct {
		answer error
		// early makes the request arrive only after the deletion.
		early bool
	}{
		"and its answer arrives": {},
		"and its answer is lost": {answer: lost},
		"and it arrives late":    {answer: lost, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.broker.SetBeforeAnswer(func(context.Context) error {
				b.delete()
				return tc.answer
			})
			if tc.early {
				b.broker.SetDown(true)
				b.after(0)
				b.broker.SetDown(false)
				b.broker.SetBeforeAnswer(nil)
				b.delete()
			} else {
				b.after(0)
			}
			for range 3 {
				b.after(time.Minute)
			}
			b.takenDown()
			if rr := (&agentv1alpha1.ResourceRequest{}); b.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "mine"}, rr) == nil {
				b.after(time.Minute)
			}
			b.expectGone()
			if tc.early {
				_, err := b.broker.RequestReservation(t.Context(), uid, &v1.ReservationRequest{})
				if fault.ReasonOf(err) != fault.Released {
					t.Errorf("the late request got %v", err)
				}
			}
		})
	}
}

func TestDeletionOfUnsentRequestCallsNoBroker(t *testing.T) {
	b := newBench(t, func(rr *agentv1alpha1.ResourceRequest) { rr.Finalizers = []string{agentv1alpha1.ReleaseFinalizer} })
	b.broker.SetDown(true)
	b.delete()
	b.after(0)
	b.expectGone()
}

func TestDeletionWhileTheBrokerIsAway(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.heard()
	b.broker.SetDown(true)
	b.delete()
	wait := b.after(time.Second)
	if wait <= 0 || wait > lastRetry {
		t.Errorf("tries again in %s", wait)
	}
	b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonBrokerUnreachable)
	b.takenDown()
	b.after(wait)
	b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonBrokerUnreachable)
	if diff := cmp.Diff([]string{"Normal Deleted", "Warning BrokerUnreachable"}, b.heard()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	b.broker.SetDown(false)
	b.after(lastRetry)
	b.expectGone()
}

func TestReservationEndedByBrokerIsTakenDown(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)

	// The inbox receives the end and releases the instruction.
	if _, err := b.broker.ReleaseReservation(t.Context(), uid, ""); err != nil {
		t.Fatal(err)
	}
	inst := b.instructions()[0]
	inst.Spec.Release = true
	runtest.Check(t, b.client.Update(t.Context(), &inst))
	b.after(time.Hour)
	b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonReleasing)
	b.takenDown()
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
	if len(b.instructions()) != 0 {
		t.Error("an instruction was made again")
	}
	b.delete()
	b.after(time.Second)
	b.expectGone()
}

func TestSilentProviderIsReportedUntilItReturns(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	if c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionProviderReachable); c != nil {
		t.Errorf("one that was never silent: %+v", c)
	}
	since := metav1.NewTime(b.clock.Now().Add(-2 * time.Minute).Truncate(time.Second))
	for _, step := range []struct {
		silent *metav1.Time
		want   metav1.ConditionStatus
		event  string
	}{
		{&since, metav1.ConditionFalse, "Warning " + agentv1alpha1.ReasonProviderSilent},
		{nil, metav1.ConditionTrue, "Normal " + agentv1alpha1.ReasonProviderBack},
	} {
		inst := b.instructions()[0]
		inst.Spec.ProviderSilentSince = step.silent
		runtest.Check(t, b.client.Update(t.Context(), &inst))
		b.after(time.Second)
		c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionProviderReachable)
		if c == nil || c.Status != step.want {
			t.Errorf("condition %+v, want %s", c, step.want)
		}
		b.expectEvent(step.event)
		b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
	}
}

// When another provider takes over, the instruction of the silent one may be gone, and need not say why it was left.
func TestProviderIsBackOnlyIfNoOtherTookOver(t *testing.T) {
	for target, want := range map[string]string{"paris": agentv1alpha1.ReasonProviderBack, "berlin": agentv1alpha1.ReasonMigrated} {
		silent := agentv1alpha1.ReservationInstruction{Spec: agentv1alpha1.ReservationInstructionSpec{
			Placement: 1, TargetClusterID: "paris", ProviderSilentSince: new(metav1.Unix(1, 0)),
		}}
		rr := &agentv1alpha1.ResourceRequest{}
		e := editor{rr: rr, now: time.Unix(100, 0)}
		rr.Status.TargetClusterID = "paris"
		e.setReachable([]agentv1alpha1.ReservationInstruction{silent})
		rr.Status.TargetClusterID = target
		e.setReachable(nil)
		if c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionProviderReachable); c.Status != metav1.ConditionTrue || c.Reason != want {
			t.Errorf("served by %s: %+v, want True with %s", target, c, want)
		}
	}
}

// granted returns the reservation that the broker granted to the request. The test edits it as
// the broker would.
func (b *bench) granted() *v1.Reservation {
	b.Helper()
	var standing *v1.Reservation
	b.broker.Decide = func(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
		var err error
		standing, err = transporttest.Grant(name, req)
		return standing, err
	}
	b.after(0)
	b.standing = standing
	return standing
}

// A granted reservation that no cluster can serve ends as Failed, whether the agent learns of
// it during the release or after.
func TestReservationThatNoClusterCanServeFails(t *testing.T) {
	for _, phase := range []v1.ReservationPhase{v1.ReservationPhaseReleasing, v1.ReservationPhaseFailed} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBench(t)
			standing := b.granted()
			b.carriedOut(nodeReady)
			b.after(time.Second)
			standing.Phase, standing.EndReason = phase, v1.ReservationEndReasonFailed
			standing.Message = "paris gave it up (Unacknowledged) and no cluster can hold cpu=500m"
			standing.Instruction.State = v1.InstructionStateRelease
			b.after(time.Minute)
			b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonReleasing)
			b.takenDown()
			b.after(time.Second)
			b.expectState(agentv1alpha1.RequestFailed, agentv1alpha1.ReasonFailed)
			rr := b.request()
			reserved := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
			if reserved.Status != metav1.ConditionFalse || reserved.Reason != agentv1alpha1.ReasonFailed {
				t.Errorf("Reserved is %s because of %s", reserved.Status, reserved.Reason)
			}
			if !strings.Contains(rr.Status.Message, "paris gave it up") || !strings.Contains(rr.Status.Message, "edit the request") {
				t.Errorf("message %q does not say why, or what to do", rr.Status.Message)
			}
			b.expectEvent("Warning " + agentv1alpha1.ReasonFailed)
			b.delete()
			b.after(time.Second)
			b.expectGone()
		})
	}
}

func TestRefusedRenewalTakesPeeringDown(t *testing.T) {
	b := newBench(t)
	b.after(0)
	if _, err := b.broker.ReleaseReservation(t.Context(), uid, ""); err != nil {
		t.Fatal(err)
	}
	b.after(time.Minute)
	b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonReleasing)
	b.takenDown()
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
}

// A denied cluster, or one with an invalid certificate, keeps its reservations.
func TestReservationStaysWhileTheBrokerRefusesTheCluster(t *testing.T) {
	for _, reason := range []fault.Reason{fault.ClusterDenied, fault.ClusterNotApproved, fault.Forbidden} {
		t.Run(string(reason), func(t *testing.T) {
			b := newBench(t)
			b.after(0)
			b.carriedOut(nodeReady)
			b.broker.SetBeforeAnswer(func(context.Context) error { return fault.New(reason, "cluster is shut out") })
			b.after(time.Minute)
			b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
			c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionReserved)
			if c.Status != metav1.ConditionTrue || c.Reason != agentv1alpha1.ReasonRefused || !strings.Contains(c.Message, "shut out") {
				t.Errorf("condition %+v", c)
			}
			b.broker.SetBeforeAnswer(nil)
			b.after(time.Minute)
			c = meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionReserved)
			if c.Reason != agentv1alpha1.ReasonReserved {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

func TestMovedPlacementDoesNotEndRequest(t *testing.T) {
	for name, heard := range map[string]bool{"and its release was heard": true, "and its release was missed": false} {
		t.Run(name, func(t *testing.T) { testMove(t, heard) })
	}
}

func testMove(t *testing.T, heard bool) {
	b := newBench(t)
	standing := b.granted()
	if heard {
		inst := b.instructions()[0]
		inst.Spec.Release = true
		runtest.Check(t, b.client.Update(t.Context(), &inst))
	}
	standing.Instruction.Placement, standing.Instruction.ProviderID = 2, "berlin"
	standing.Placements = []v1.Placement{
		{Number: 1, ClusterID: "paris", State: v1.PlacementStateWithdrawing}, {Number: 2, ClusterID: "berlin", State: v1.PlacementStateAssigned},
	}
	b.after(time.Minute)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	if got := b.request().Status.TargetClusterID; got != "berlin" {
		t.Errorf("target %q", got)
	}
	if all := b.instructions(); len(all) != 2 || !all[0].Spec.Release || all[1].Spec.Release {
		t.Errorf("instructions %+v", all)
	}
}

func TestStaleStatusCausesNoRelease(t *testing.T) {
	b := newBench(t)
	b.after(0)
	rr := b.request()
	rr.Status = agentv1alpha1.ResourceRequestStatus{Phase: agentv1alpha1.RequestPending, Asked: true}
	runtest.Check(t, b.client.Status().Update(t.Context(), rr))
	b.after(time.Millisecond)
	if b.instructions()[0].Spec.Release {
		t.Error("the instruction was released")
	}
	b.after(askGap)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
}

func TestForgottenReservationIsReplaced(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(nodeReady)
	b.broker = transporttest.New("rome")
	b.broker.Decide = func(_ string, req *v1.ReservationRequest) (*v1.Reservation, error) {
		return transporttest.Grant("res-0000000002", req)
	}
	b.Reconciler.broker = b.broker
	b.after(time.Minute)
	all := b.instructions()
	if len(all) != 2 || !all[0].Spec.Release || all[1].Spec.Release {
		t.Errorf("instructions %+v", all)
	}
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	if got := b.request().Status.ReservationName; got != "res-0000000002" {
		t.Errorf("reservation %q", got)
	}
}

func TestDeletedInstructionIsRecreated(t *testing.T) {
	b := newBench(t)
	b.after(0)
	runtest.Check(t, b.client.Delete(t.Context(), &b.instructions()[0]))
	b.after(time.Second)
	if len(b.instructions()) != 1 {
		t.Error("the instruction was not made again")
	}
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
}

func withStrategy(strategy agentv1alpha1.PodOffloadingStrategy) func(*agentv1alpha1.ResourceRequest) {
	return func(rr *agentv1alpha1.ResourceRequest) {
		rr.Spec.Offloading = &agentv1alpha1.Offloading{PodOffloadingStrategy: strategy}
	}
}

func TestNamespaces(t *testing.T) {
	cases := map[string]struct {
		ask    []func(*agentv1alpha1.ResourceRequest)
		open   []string
		closed string
	}{
		"none named means the request's own":           {open: []string{"team"}},
		"an empty list means none":                     {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces()}},
		"its own may be named":                         {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("team")}, open: []string{"team"}},
		"another one that opted in":                    {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("shared", "team")}, open: []string{"shared", "team"}},
		"the rest goes on without one that did not":    {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("private", "shared")}, open: []string{"shared"}, closed: `not open to requests of namespace "team": "private"; to open: kubectl label namespace private liqo.io/broker-offload=team`},
		"one that names the request's":                 {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("for-team")}, open: []string{"for-team"}},
		"one that names another":                       {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("for-others")}, closed: `not open to requests of namespace "team": "for-others"; to open: kubectl label namespace for-others liqo.io/broker-offload=team`},
		"one whose pods would all leave":               {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("for-team", "team"), withStrategy(agentv1alpha1.PodOffloadingRemote)}, open: []string{"team"}, closed: `open only to podOffloadingStrategy Local without podCompliance Enforce: "for-team"; only their own requests may have others`},
		"one that does not exist":                      {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("nowhere")}, closed: `namespaces that do not exist: "nowhere"; create them with label liqo.io/broker-offload=team`},
		"one of Kubernetes, which got past the checks": {ask: []func(*agentv1alpha1.ResourceRequest){withNamespaces("kube-system", "team")}, open: []string{"team"}, closed: `system namespaces, which cannot be offloaded: "kube-system"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.ask...)
			for name, value := range map[string]string{"private": "false", "shared": "true", "for-team": "team", "for-others": "others"} {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{agentv1alpha1.OffloadLabel: value}}}
				runtest.Check(t, b.client.Create(t.Context(), ns))
			}
			b.after(0)
			if diff := cmp.Diff(tc.open, b.instructions()[0].Spec.Namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionOffloading)
			if closed := c != nil && c.Reason == agentv1alpha1.ReasonNamespaceNotOpted; closed != (tc.closed != "") {
				t.Errorf("condition %+v", c)
			}
			if tc.closed != "" && c.Message != tc.closed {
				t.Errorf("message %q, want %q", c.Message, tc.closed)
			}
		})
	}
}

func TestNamespaceThatOptsInLaterIsOffloaded(t *testing.T) {
	b := newBench(t, withNamespaces("private"))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "private"}}
	runtest.Check(t, b.client.Create(t.Context(), ns))
	b.after(0)
	ns.Labels = map[string]string{agentv1alpha1.OffloadLabel: "true"}
	runtest.Check(t, b.client.Update(t.Context(), ns))
	if got := b.requestsNaming(t.Context(), ns); len(got) != 1 || got[0].Name != "mine" {
		t.Errorf("wakes %v", got)
	}
	b.carriedOut(nodeReady)
	b.after(time.Second)
	if diff := cmp.Diff([]string{"private"}, b.instructions()[0].Spec.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionOffloading); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

func TestRequestIsReadyOncePodsCanRun(t *testing.T) {
	b := newBench(t)
	b.after(0)
	offloading := metav1.Condition{Type: agentv1alpha1.ConditionOffloading, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonOffloading, Message: "waiting for Liqo"}
	b.carriedOut(func(inst *agentv1alpha1.ReservationInstruction) {
		nodeReady(inst)
		meta.SetStatusCondition(&inst.Status.Conditions, offloading)
	})
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonOffloading)
	if status := b.request().Status; meta.IsStatusConditionTrue(status.Conditions, agentv1alpha1.ConditionReady) ||
		status.Message != "virtual node is Ready, but waiting for Liqo" {
		t.Errorf("Ready although no pod can go there, message %q", status.Message)
	}
	b.carriedOut(nodeReady)
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
}

func TestAgentWithoutPeeringStopsAtReserved(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(func(inst *agentv1alpha1.ReservationInstruction) {
		inst.Status.Delivered = true
		inst.Status.Conditions = []metav1.Condition{{
			Type: agentv1alpha1.ConditionPeeringSkipped, Status: metav1.ConditionTrue,
			Reason: agentv1alpha1.ReasonPeeringSkipped, Message: "capacity is reserved; this agent does not peer",
		}}
	})
	b.after(time.Second)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeeringSkipped)
}

// edit changes the request's spec as a user does.
func (b *bench) edit(change func(*agentv1alpha1.ResourceRequestSpec)) {
	b.Helper()
	rr := b.request()
	change(&rr.Spec)
	rr.Generation++
	runtest.Check(b, b.client.Update(b.Context(), rr))
}

func TestEditedDurationIsSentToBroker(t *testing.T) {
	const agreed = "the change was refused: duration: 2h0m0s is longer"
	tests := map[string]struct {
		refusal error
		want    []v1.ReservationChange
		status  metav1.ConditionStatus
		message string
	}{
		"it agrees": {
			want: []v1.ReservationChange{{Generation: 2, DurationSeconds: 7200, Resources: v1.Amounts{"cpu": "500m", "memory": "256Mi"}}}, status: metav1.ConditionTrue,
		},
		"it refuses, and what was agreed goes on": {
			refusal: fault.New(fault.Invalid, "duration: 2h0m0s is longer than the longest"),
			want:    []v1.ReservationChange{{Generation: 2, DurationSeconds: 7200, Resources: v1.Amounts{"cpu": "500m", "memory": "256Mi"}}}, status: metav1.ConditionFalse, message: agreed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, withDuration(time.Hour))
			b.broker.RefuseChange = tc.refusal
			b.after(0)
			b.carriedOut(nodeReady)
			b.after(time.Second)
			b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Duration = &metav1.Duration{Duration: 2 * time.Hour} })
			for range 3 {
				b.after(time.Second)
			}
			if diff := cmp.Diff(tc.want, b.broker.Changes()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionChanged)
			if c == nil || c.Status != tc.status || !strings.Contains(c.Message, tc.message) {
				t.Errorf("condition %+v, want %s with %q", c, tc.status, tc.message)
			}
			b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
		})
	}
}

// The earlier agreement stays in force until the provider has agreed to the change.
func TestEditedAmountsAreInForceWhenTheProviderAgrees(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	two := resource.MustParse("2")
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.CPU = &two })
	changedIs := func(want metav1.ConditionStatus, cpu string) {
		t.Helper()
		c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionChanged)
		if c == nil || c.Status != want {
			t.Errorf("condition %+v, want %s", c, want)
		}
		if got := b.instructions()[0].Spec.Resources.Cpu().String(); got != cpu {
			t.Errorf("the instruction is for %s, want %s", got, cpu)
		}
		b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
	}
	if again := b.after(time.Second); again <= 0 || again > 5*time.Second {
		t.Errorf("the broker is asked again after %s", again)
	}
	changedIs(metav1.ConditionUnknown, "500m")
	b.after(5 * time.Second)
	changedIs(metav1.ConditionUnknown, "500m")
	b.broker.Agree()
	b.after(5 * time.Second)
	changedIs(metav1.ConditionTrue, "2")
	if want, got := 1, len(b.broker.Changes()); got != want {
		t.Errorf("%d changes were asked for, want %d", got, want)
	}
}

func TestEditWaitsForAnswerToEarlierChange(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	waits := fault.New(fault.Awaiting, "paris has not answered change 2 yet")
	waits.RetryAfter = 2 * time.Second
	b.broker.RefuseChange = waits
	two := resource.MustParse("2")
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.CPU = &two })
	if again := b.after(time.Second); again <= 0 || again > 5*time.Second {
		t.Errorf("the broker is asked again after %s", again)
	}
	c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionChanged)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != agentv1alpha1.ReasonAwaitingProvider {
		t.Errorf("condition %+v", c)
	}
	b.broker.RefuseChange = nil
	b.after(2 * time.Second)
	b.broker.Agree()
	b.after(5 * time.Second)
	if c = meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionChanged); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
}

func TestReleasedRequestStaysReadable(t *testing.T) {
	for name, asked := range map[string]bool{"when it runs": true, "before anything was asked": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if asked {
				b.after(0)
				b.carriedOut(nodeReady)
				b.after(time.Second)
			}
			b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Release = true })
			b.after(time.Second)
			if asked {
				b.expectState(agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonReleasing)
				b.takenDown()
				b.after(time.Second)
			}
			b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
			if held := b.broker.Held(); len(held) > 0 {
				t.Errorf("the broker still holds %v", held)
			}
			b.after(time.Hour)
			b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
			b.delete()
			b.after(time.Second)
			b.after(time.Second)
			b.expectGone()
		})
	}
}

func TestEndReasonStaysReadable(t *testing.T) {
	rr := &agentv1alpha1.ResourceRequest{}
	status := editor{rr: rr}
	status.setLost("paris gave it up (Unacknowledged)")
	status.setOver()
	status.setSummary()
	for _, want := range []string{"paris gave it up (Unacknowledged)", "edit the request"} {
		if !strings.Contains(rr.Status.Message, want) {
			t.Errorf("message %q does not say %q", rr.Status.Message, want)
		}
	}
}
