package providerinstruction

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// waitLimit ends a wait for something that must happen. It is far longer than the slowest machine needs.
const waitLimit = 5 * time.Minute

// broker records the reports that it receives.
type broker struct{ told chan v1.StatusReport }

func (b *broker) ReportStatus(_ context.Context, _ string, report *v1.StatusReport) error {
	b.told <- *report
	return nil
}

func newReconciler(t *testing.T, b *broker, admit Admit, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	sender := outbox.NewOutbox(clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { _ = sender.Start(ctx); close(stopped) }()
	t.Cleanup(func() { cancel(); <-stopped })
	b.told = make(chan v1.StatusReport, 8)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&agentv1alpha1.ProviderInstruction{}, &corev1.Pod{}).Build()
	return &Reconciler{
		client:  c,
		opts:    Options{Namespace: "default", Admit: admit, Recorder: events.NewFakeRecorder(16), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))},
		queue:   instruction.NewQueue(c, "default"),
		reports: outbox.Reports{Outbox: sender, Reporter: b, Role: v1.StatusReportRoleProvider, Log: logr.Discard()},
	}
}

func newInstruction() *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-a-1"},
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-a", Placement: 1, RequesterClusterID: "rome"},
	}
}

func step(t *testing.T, r *Reconciler) error {
	t.Helper()
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: "res-a-1"}})
	return err
}

// settled reconciles and returns the instruction and the state reported to the broker.
func settled(t *testing.T, r *Reconciler, b *broker) (*agentv1alpha1.ProviderInstruction, v1.StatusReportState) {
	t.Helper()
	runtest.Check(t, step(t, r))
	select {
	case <-r.queue.Due():
	case <-time.After(waitLimit):
		t.Fatal("the broker was not told")
	}
	inst := newInstruction()
	runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
	return inst, (<-b.told).State
}

func always(a admission.Decision) Admit {
	return func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) { return a, nil }
}

func TestAdmissionIsWrittenAndReported(t *testing.T) {
	tests := map[string]struct {
		admission admission.Decision
		enforced  bool
		phase     agentv1alpha1.InstructionPhase
		report    v1.StatusReportState
		reason    string
	}{
		"admitted": {
			admission: admission.Decision{Admitted: true}, enforced: true, phase: agentv1alpha1.InstructionPending,
			report: v1.StatusReportStateAcknowledged, reason: agentv1alpha1.ReasonAcknowledged,
		},
		"refused for want of capacity": {
			admission: admission.Decision{Reason: agentv1alpha1.ReasonInsufficient, Message: "2 of 4 cores are free"},
			phase:     agentv1alpha1.InstructionRefused, report: v1.StatusReportStateRefused, reason: agentv1alpha1.ReasonInsufficient,
		},
		"nodes must be created": {
			admission: admission.Decision{NewNodes: []agentv1alpha1.NewNodes{{Group: "gpu", Count: 2}}}, phase: agentv1alpha1.InstructionProvisioning,
			report: v1.StatusReportStateProvisioning,
		},
		"refused without a reason": {
			phase: agentv1alpha1.InstructionRefused, report: v1.StatusReportStateRefused, reason: agentv1alpha1.ReasonRefused,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := &broker{}
			r := newReconciler(t, b, always(test.admission), newInstruction())
			inst, report := settled(t, r, b)
			if report != test.report || inst.Status.Enforced != test.enforced || inst.Status.Phase != test.phase {
				t.Errorf("got report %q, enforced %v, phase %q, want %q, %v, %q",
					report, inst.Status.Enforced, inst.Status.Phase, test.report, test.enforced, test.phase)
			}
			c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
			if test.reason != "" && (c == nil || c.Reason != test.reason) || test.reason == "" && inst.IsDecided() {
				t.Errorf("condition: got %+v, want reason %q", c, test.reason)
			}
		})
	}
}

func TestAdmissionIsAskedOnceItAnswers(t *testing.T) {
	asked, b := 0, &broker{}
	admit := func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) {
		if asked++; asked == 1 {
			return admission.Decision{}, errors.New("nodes are not counted yet")
		}
		return admission.Decision{Admitted: true}, nil
	}
	r := newReconciler(t, b, admit, newInstruction())
	if err := step(t, r); err == nil {
		t.Fatal("an undecided placement was settled")
	}
	settled(t, r, b)
	runtest.Check(t, step(t, r))
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}

func TestPlacementIsKeptUntilBothSidesAreDone(t *testing.T) {
	inst, b := newInstruction(), &broker{}
	r := newReconciler(t, b, always(admission.Decision{Admitted: true}), inst)
	inst, _ = settled(t, r, b)
	inst.Spec.Release = true
	runtest.Check(t, r.client.Update(t.Context(), inst))
	inst, report := settled(t, r, b)
	want := agentv1alpha1.InstructionReleased
	if report != v1.StatusReportStateGone || inst.Status.Enforced || inst.Status.Phase != want {
		t.Errorf("got report %q, enforced %v, phase %q, want Gone, false, %q", report, inst.Status.Enforced, inst.Status.Phase, want)
	}
	inst.Spec.Unpeer = true
	runtest.Check(t, r.client.Update(t.Context(), inst))
	runtest.Check(t, step(t, r))
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst); !apierrors.IsNotFound(err) {
		t.Errorf("the instruction is still there: %v", err)
	}
}

func TestDeletedInstructionWithdrawsItsPlacement(t *testing.T) {
	inst, b := newInstruction(), &broker{}
	r := newReconciler(t, b, always(admission.Decision{Admitted: true}), inst)
	inst, _ = settled(t, r, b)
	runtest.Check(t, r.client.Delete(t.Context(), inst))
	// A report may be delivered before or after the step that sends it ends. Either way each is
	// delivered once, in this order, before the instruction goes.
	for _, want := range []v1.StatusReportState{v1.StatusReportStateRefused, v1.StatusReportStateGone} {
		runtest.Check(t, step(t, r))
		select {
		case report := <-b.told:
			if report.State != want {
				t.Fatalf("got report %q, want %q", report.State, want)
			}
		case <-time.After(waitLimit):
			t.Fatalf("the broker was not told %q", want)
		}
		<-r.queue.Due()
		runtest.Check(t, step(t, r))
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst); !apierrors.IsNotFound(err) {
		t.Errorf("the instruction is still there: %v", err)
	}
	if len(b.told) > 0 {
		t.Errorf("the broker was also told %+v", <-b.told)
	}
}

func TestUndecidedReleasedPlacementIsNotAdmitted(t *testing.T) {
	inst, b := newInstruction(), &broker{}
	inst.Spec.Release = true
	admit := func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) {
		t.Error("asked for admission")
		return admission.Decision{}, nil
	}
	r := newReconciler(t, b, admit, inst)
	inst, report := settled(t, r, b)
	if report != v1.StatusReportStateGone || inst.Status.Enforced {
		t.Errorf("got report %q, enforced %v, want Gone, false", report, inst.Status.Enforced)
	}
	if diff := cmp.Diff(0, len(b.told)); diff != "" {
		t.Errorf("more was reported (-want +got):\n%s", diff)
	}
}

// The consumer learns of the placement at the same time as this cluster, so its slice may arrive
// before the decision.
func TestSliceIsAdmittedBeforeTheDecision(t *testing.T) {
	b := &broker{}
	var opened int
	admit := func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) {
		if opened < 3 {
			t.Error("asked for admission before the slice was admitted")
		}
		return admission.Decision{Admitted: true}, nil
	}
	r := newReconciler(t, b, admit, newInstruction())
	shut := errors.New("no Advertisement")
	r.opts.AdmitSlice = func(_ context.Context, inst *agentv1alpha1.ProviderInstruction) error {
		if opened++; opened < 3 {
			return shut
		}
		return nil
	}
	for range 2 {
		if err := step(t, r); !errors.Is(err, shut) {
			t.Fatalf("reconciled with %v, want %v", err, shut)
		}
		if len(b.told) > 0 {
			t.Fatalf("the broker was told %+v before the rights were there", <-b.told)
		}
	}
	if _, report := settled(t, r, b); report != v1.StatusReportStateAcknowledged {
		t.Errorf("reported %s", report)
	}
}
