package liqo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Placements of two requests name one namespace and want different strategies.
func TestSecondStrategyWaitsForFirst(t *testing.T) {
	rome := newWorld(t).sites["rome"]
	check := func(err error) {
		t.Helper()
		runtest.Check(t, err)
	}
	check(rome.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}))
	instruct := func(reservation, provider string, at int64, o *agentv1alpha1.Offloading) *agentv1alpha1.ReservationInstruction {
		inst := &agentv1alpha1.ReservationInstruction{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: brokerv1alpha1.PlacementName(reservation, 1), UID: types.UID(reservation), CreationTimestamp: metav1.Unix(at, 0),
			},
			Spec: agentv1alpha1.ReservationInstructionSpec{
				ReservationName: reservation, Placement: 1, TargetClusterID: provider, Namespaces: []string{"demo"}, Offloading: o,
				RequestRef: &agentv1alpha1.RequestReference{Namespace: "demo", Name: "for-" + reservation},
			},
		}
		check(rome.client.Create(t.Context(), inst))
		return inst
	}
	consume := func(inst *agentv1alpha1.ReservationInstruction) placement.Aspect {
		t.Helper()
		state, err := rome.peering.Consume(t.Context(), inst)
		check(err)
		return state.Offloading
	}
	inForce := func() (plan.Strategy, []string) {
		t.Helper()
		var o offloadingv1beta1.NamespaceOffloading
		check(rome.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: object.OffloadingName}, &o))
		return plan.Strategy{Pods: o.Spec.PodOffloadingStrategy, Names: o.Spec.NamespaceMappingStrategy}, selectedProviders(&o)
	}

	remote := plan.Strategy{Pods: offloadingv1beta1.RemotePodOffloadingStrategyType}.WithDefaults()
	first := instruct("res-z", "paris", 1, &agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingRemote})
	second := instruct("res-a", "berlin", 2, nil)
	for range 3 {
		told := consume(second)
		if told.Reason != agentv1alpha1.ReasonOffloadingConflict || !strings.Contains(told.Message, `"demo/for-res-z"`) {
			t.Errorf("the second is told %+v, want a conflict with demo/for-res-z", told)
		}
		consume(first)
		if s, providers := inForce(); s != remote || !cmp.Equal(providers, []string{"paris"}) {
			t.Fatalf("in force is %s for %v, want Remote for paris alone", s, providers)
		}
	}
	check(rome.client.Delete(t.Context(), first))
	consume(second)
	if s, providers := inForce(); s != (plan.Strategy{}).WithDefaults() || !cmp.Equal(providers, []string{"berlin"}) {
		t.Errorf("after the first: %s for %v, want Local for berlin", s, providers)
	}
}
