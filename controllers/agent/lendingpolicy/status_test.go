package lendingpolicy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// provides returns an instruction that was acknowledged, or refused for the given reason.
func provides(namespace, name, refused string) *agentv1alpha1.ProviderInstruction {
	inst := &agentv1alpha1.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	inst.Status.Enforced = refused == ""
	acknowledged := metav1.Condition{Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionTrue, Reason: "Acknowledged"}
	if refused != "" {
		acknowledged.Status, acknowledged.Reason = metav1.ConditionFalse, refused
	}
	inst.Status.Conditions = []metav1.Condition{acknowledged}
	return inst
}

func TestStatusShowsPolicyInForce(t *testing.T) {
	soon, later := metav1.NewTime(noon.Add(time.Minute)), metav1.NewTime(noon.Add(time.Hour))
	first, second := provides("default", "a-1", ""), provides("default", "b-1", "")
	first.Status.Recalled = &agentv1alpha1.RecalledPlacement{Since: metav1.NewTime(noon), EndsAt: later}
	second.Status.Recalled = &agentv1alpha1.RecalledPlacement{Since: metav1.NewTime(noon), EndsAt: soon}
	standing := []client.Object{
		first, second, provides("elsewhere", "c-1", ""),
		provides("default", "d-1", "LendingPaused"), provides("default", "e-1", "ConsumerDenied"), provides("default", "f-1", "InsufficientCapacity"),
	}
	tests := map[string]struct {
		spec    agentv1alpha1.LendingPolicySpec
		message string
		lending metav1.ConditionStatus
	}{
		"nothing is said": {agentv1alpha1.LendingPolicySpec{}, "lends to every cluster", metav1.ConditionTrue},
		"some are allowed": {
			agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Allow: []agentv1alpha1.ClusterID{"rome", "milan"}}},
			"lends to the 2 clusters in consumers.allow", metav1.ConditionTrue,
		},
		"some are denied": {
			agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Deny: []agentv1alpha1.ClusterID{"rome"}}},
			"lends to every cluster except the 1 in consumers.deny", metav1.ConditionTrue,
		},
		"all are called back": {
			agentv1alpha1.LendingPolicySpec{Recalls: []agentv1alpha1.Recall{{Consumer: "*"}}},
			"lending is paused: nothing new is granted, and the placements in recalls are called back", metav1.ConditionFalse,
		},
		"lending is paused": {
			agentv1alpha1.LendingPolicySpec{Paused: true, Consumers: &agentv1alpha1.Consumers{Deny: []agentv1alpha1.ClusterID{"rome"}}},
			"lending is paused: nothing new is granted, existing placements stay", metav1.ConditionFalse,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3}, Spec: test.spec}
			c := fakeclient.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(standing, policy)...).
				WithStatusSubresource(&agentv1alpha1.LendingPolicy{}).Build()
			r := &Reconciler{client: c, options: Options{InstructionNamespace: "default", Clock: clocktesting.NewFakePassiveClock(noon)}}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			got := &agentv1alpha1.LendingPolicy{}
			runtest.Check(t, c.Get(t.Context(), client.ObjectKey{Name: "default"}, got))
			want := agentv1alpha1.LendingPolicyStatus{
				ObservedGeneration: 3, Message: test.message, Placements: 2, Refused: 2, Recalling: 2, RecalledUntil: &later,
				Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}, {Type: "Lending", Status: test.lending}},
			}
			ignored := cmpopts.IgnoreFields(metav1.Condition{}, "Reason", "Message", "ObservedGeneration", "LastTransitionTime")
			if diff := cmp.Diff(want, got.Status, ignored); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			again := &agentv1alpha1.LendingPolicy{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, again); err != nil || again.ResourceVersion != got.ResourceVersion {
				t.Errorf("written again without need: %s after %s, %v", again.ResourceVersion, got.ResourceVersion, err)
			}
		})
	}
}

func TestReconcileWithoutPolicy(t *testing.T) {
	r := &Reconciler{client: fakeclient.NewClientBuilder().WithScheme(scheme(t)).Build(), options: Options{Clock: clocktesting.NewFakePassiveClock(noon)}}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	return scheme
}
