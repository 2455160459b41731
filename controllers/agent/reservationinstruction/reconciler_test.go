package reservationinstruction

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// waitLimit ends a wait for something that must happen. It is far longer than the slowest machine needs.
const waitLimit = 5 * time.Minute

// broker records the reports that it receives and answers err.
type broker struct {
	err  error
	told chan v1.StatusReport
}

func (b *broker) ReportStatus(_ context.Context, _ string, report *v1.StatusReport) error {
	b.told <- *report
	return b.err
}

func newReconciler(t *testing.T, b *broker, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	sender := outbox.NewOutbox(clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { _ = sender.Start(ctx); close(stopped) }()
	t.Cleanup(func() { cancel(); <-stopped })
	b.told = make(chan v1.StatusReport, 8)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&agentv1alpha1.ReservationInstruction{}).Build()
	return &Reconciler{
		client: c,
		opts: Options{
			Namespace: "default", Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), ExpiryNotice: 10 * time.Minute,
			Recorder: events.NewFakeRecorder(8),
		},
		queue:   instruction.NewQueue(c, "default"),
		drained: map[string]bool{},
		reports: outbox.Reports{Outbox: sender, Reporter: b, Role: v1.StatusReportRoleConsumer, Log: logr.Discard()},
	}
}

func newInstruction() *agentv1alpha1.ReservationInstruction {
	return &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-a-1"},
		Spec:       agentv1alpha1.ReservationInstructionSpec{ReservationName: "res-a", Placement: 1, TargetClusterID: "paris"},
	}
}

func step(t *testing.T, r *Reconciler) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "res-a-1"}}); err != nil {
		t.Fatal(err)
	}
}

func awaitHeard(t *testing.T, r *Reconciler) {
	t.Helper()
	select {
	case <-r.queue.Due():
	case <-time.After(waitLimit):
		t.Fatal("the broker was not told")
	}
}

func TestInstructionWithoutPeeringIsNeverActive(t *testing.T) {
	inst := newInstruction()
	r := newReconciler(t, &broker{}, inst)
	step(t, r)
	runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
	if inst.Status.Phase != agentv1alpha1.InstructionPending || !inst.Status.Delivered {
		t.Errorf("got phase %q, delivered %v, want Pending, true", inst.Status.Phase, inst.Status.Delivered)
	}
	if !meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionPeeringSkipped) ||
		meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionReady) {
		t.Errorf("conditions: got %+v, want PeeringSkipped and not Ready", inst.Status.Conditions)
	}
}

func TestReleasedInstructionIsRemovedOnceTheBrokerKnows(t *testing.T) {
	tests := map[string]struct{ answer error }{
		"the broker takes the report":                {},
		"the broker knows the placement no more":     {answer: fault.New(fault.NotFound, "no such reservation")},
		"the broker has the placement ended already": {answer: fault.New(fault.Conflict, "it is gone")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			inst.Spec.Release = true
			b := &broker{err: test.answer}
			r := newReconciler(t, b, inst)
			step(t, r)
			awaitHeard(t, r)
			want := v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateGone, Reason: agentv1alpha1.ReasonReleased}
			if diff := cmp.Diff(want, <-b.told); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			step(t, r)
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst); !apierrors.IsNotFound(err) {
				t.Errorf("the instruction is still there: %v", err)
			}
		})
	}
}

// leaving is a peering that needs a few attempts to depart.
type leaving struct {
	peering
	client   client.Client
	attempts int
}

func (*leaving) Consume(context.Context, *agentv1alpha1.ReservationInstruction) (plan.ConsumerState, error) {
	return plan.ConsumerState{Phase: agentv1alpha1.InstructionReleased, Gone: true, Done: true}, nil
}

func (l *leaving) DepartConsumer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	if l.attempts--; l.attempts >= 0 {
		return false, nil
	}
	return true, patch.Delete(ctx, l.client, inst, agentv1alpha1.PeeringFinalizer)
}

// No event comes if the instruction has just become the last one for its provider.
func TestInstructionThatCannotDepartYetIsTriedAgain(t *testing.T) {
	inst := newInstruction()
	inst.Spec.Release = true
	b := &broker{}
	r := newReconciler(t, b, inst)
	l := &leaving{client: r.client, attempts: 1}
	r.peering = l
	key := client.ObjectKeyFromObject(inst)
	step(t, r) // makes a first attempt if the broker has received the report by then
	awaitHeard(t, r)
	l.attempts = 2
	for attempt := range 3 {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if departed := attempt == 2; err != nil || (result.RequeueAfter == 0) != departed {
			t.Errorf("attempt %d: again after %s, %v", attempt, result.RequeueAfter, err)
		}
	}
	if err := r.client.Get(t.Context(), key, inst); !apierrors.IsNotFound(err) {
		t.Errorf("the instruction is still there: %v", err)
	}
}

func TestReleasedInstructionStaysWhileBrokerIsAway(t *testing.T) {
	inst := newInstruction()
	inst.Spec.Release = true
	b := &broker{err: fault.New(fault.Unavailable, "not now")}
	r := newReconciler(t, b, inst)
	step(t, r)
	<-b.told
	step(t, r)
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst); err != nil {
		t.Errorf("the instruction went before the broker knew: %v", err)
	}
}

func TestNetworkConditionIsShownOnlyIfNetworksConnect(t *testing.T) {
	inst, now := newInstruction(), metav1.NewTime(time.Unix(1000, 0))
	for _, test := range []struct {
		network placement.Aspect
		want    metav1.ConditionStatus
	}{
		{},
		{placement.Aspect{Reason: agentv1alpha1.ReasonNetworkPending, Message: "waits"}, metav1.ConditionFalse},
		{placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNetworkConnected, Message: "12ms away"}, metav1.ConditionTrue},
		{},
	} {
		describeStatus(inst, plan.ConsumerState{Network: test.network}, false, now.Time)
		var got metav1.ConditionStatus
		if c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionNetworkConnected); c != nil {
			got = c.Status
		}
		if got != test.want {
			t.Errorf("of %+v it says %q, want %q", test.network, got, test.want)
		}
	}
}

func TestStatusSaysWhatIsAwaited(t *testing.T) {
	done := placement.Aspect{True: true, Reason: "Done", Message: "done"}
	awaits := func(what string) placement.Aspect { return placement.Aspect{Reason: "Awaits", Message: what} }
	now := metav1.NewTime(time.Unix(1000, 0))
	tests := map[string]struct {
		before agentv1alpha1.ReservationInstructionStatus
		by     metav1.Time
		state  plan.ConsumerState
		want   agentv1alpha1.ReservationInstructionStatus
		ready  bool
	}{
		"the handshake": {
			state: plan.ConsumerState{Phase: agentv1alpha1.InstructionPeering, Peered: awaits("credentials"), NodeReady: awaits("peering"), Offloading: done},
			want:  agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionPeering, Message: "credentials"},
		},
		"the node": {
			state: plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, Peered: done, NodeReady: awaits("node"), Offloading: awaits("namespace")},
			want:  agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionAwaitingNode, Message: "node"},
		},
		"the network, while the broker waits for it": {
			by: metav1.NewTime(time.Unix(4600, 0)),
			state: plan.ConsumerState{
				Phase: agentv1alpha1.InstructionAwaitingNode, Peered: done, NodeReady: awaits("node"), Offloading: done, Network: awaits("an address"), Connecting: true,
			},
			want: agentv1alpha1.ReservationInstructionStatus{
				Phase: agentv1alpha1.InstructionAwaitingNode, Message: `setting up the network with "paris" until 1970-01-01T01:16:40Z: an address`,
			},
		},
		"the network, before the broker knows": {
			state: plan.ConsumerState{
				Phase: agentv1alpha1.InstructionAwaitingNode, Peered: done, NodeReady: awaits("node"), Offloading: done, Network: awaits("an address"), Connecting: true,
			},
			want: agentv1alpha1.ReservationInstructionStatus{
				Phase: agentv1alpha1.InstructionAwaitingNode, Message: `setting up the network with "paris": an address`,
			},
		},
		"the network of a node that was ready before": {
			before: agentv1alpha1.ReservationInstructionStatus{Delivered: true, NodeName: "res-a-1"},
			state: plan.ConsumerState{
				Phase: agentv1alpha1.InstructionAwaitingNode, Peered: done, NodeReady: awaits("node"), Offloading: done, Network: awaits("an address"), Connecting: true,
			},
			want: agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionAwaitingNode, Delivered: true, NodeName: "res-a-1", Message: "node"},
		},
		"a namespace, with the node ready": {
			state: plan.ConsumerState{Phase: agentv1alpha1.InstructionActive, Peered: done, NodeReady: done, Offloading: awaits("namespace")},
			want:  agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionActive, Delivered: true, NodeName: "res-a-1", Message: "namespace"},
		},
		"nothing": {
			state: plan.ConsumerState{Phase: agentv1alpha1.InstructionActive, Peered: done, NodeReady: done, Offloading: done},
			want:  agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionActive, Delivered: true, NodeName: "res-a-1", Message: "done"},
			ready: true,
		},
		"more namespaces than there is room for": {
			state: plan.ConsumerState{Phase: agentv1alpha1.InstructionActive, Peered: done, NodeReady: done, Offloading: awaits(strings.Repeat("namespace ", 500))},
			want:  agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionActive, Delivered: true, NodeName: "res-a-1", Message: message.Clip(strings.Repeat("namespace ", 500), message.MaxStatus)},
		},
		"a node that was ready before": {
			before: agentv1alpha1.ReservationInstructionStatus{Delivered: true, NodeName: "res-a-1"},
			state:  plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, Peered: done, NodeReady: awaits("node"), Offloading: done},
			want:   agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionAwaitingNode, Delivered: true, NodeName: "res-a-1", Message: "node"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			inst.Status = test.before
			if !test.by.IsZero() {
				inst.Spec.ConnectBy = &test.by
			}
			describeStatus(inst, test.state, false, now.Time)
			if diff := cmp.Diff(test.want, inst.Status, cmpopts.IgnoreFields(agentv1alpha1.ReservationInstructionStatus{}, "Conditions")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			for _, c := range inst.Status.Conditions {
				if len(c.Message) > message.MaxStatus {
					t.Errorf("condition %s says %d bytes", c.Type, len(c.Message))
				}
			}
			if got := meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionReady); got != test.ready {
				t.Errorf("ready: got %v, want %v", got, test.ready)
			}
		})
	}
}

func TestNodeIsReportedToBroker(t *testing.T) { synctest.Test(t, testNodeReports) }

func testNodeReports(t *testing.T) {
	ready := plan.ConsumerState{Phase: agentv1alpha1.InstructionActive, NodeReady: placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNodeReady}}
	connecting := plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, NodeReady: placement.Aspect{Reason: agentv1alpha1.ReasonNodeNotReady}, Connecting: true}
	unready := plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, NodeReady: placement.Aspect{Reason: agentv1alpha1.ReasonNodeNotReady, Message: "kubelet stopped"}}
	denied, rejecting, unserved := ready, ready, ready
	denied.Health = placement.Aspect{Reason: agentv1alpha1.ReasonSliceDenied, Message: "no reason is given"}
	rejecting.Health = placement.Aspect{Reason: agentv1alpha1.ReasonPodsRejected}
	unserved.Health, unserved.Unserved = rejecting.Health, true
	inst := newInstruction()
	b := &broker{}
	r := newReconciler(t, b, inst)
	r.opts.Peering, r.opts.Reach = &liqo.Peering{}, &sight{}
	var heard []v1.StatusReportState
	for _, state := range []plan.ConsumerState{unready, connecting, connecting, ready, ready, unready, unready, connecting, ready, denied, denied, rejecting, unserved, unserved, ready} {
		if state.NodeReady.True {
			inst.Status.Delivered = true
		}
		r.reportState(inst, state)
		synctest.Wait()
		select {
		case got := <-b.told:
			awaitHeard(t, r)
			heard = append(heard, got.State)
		default: // nothing new to report
		}
	}
	want := []v1.StatusReportState{
		v1.StatusReportStateConnecting, v1.StatusReportStateReady, v1.StatusReportStateNotReady,
		v1.StatusReportStateReady, v1.StatusReportStateNotReady, v1.StatusReportStateReady,
		v1.StatusReportStateNotReady, v1.StatusReportStateReady,
	}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}
