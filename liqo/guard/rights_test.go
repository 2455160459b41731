package guard

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestRightsFollowTheReservation(t *testing.T) {
	const right = "rome.peers.broker.fluidos.eu/res-a-1"
	tests := map[string]struct {
		change func(*agentv1alpha1.ProviderInstruction)
		want   map[string]Right
	}{
		"while it stands its identity writes": {
			change: func(*agentv1alpha1.ProviderInstruction) {}, want: map[string]Right{right: "Write"},
		},
		"while this cluster decides the slice may be created": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced = false },
			want:   map[string]Right{right: "Create"},
		},
		"one that this cluster refuses has no right": {
			change: func(i *agentv1alpha1.ProviderInstruction) {
				i.Status = agentv1alpha1.ProviderInstructionStatus{Conditions: []metav1.Condition{{
					Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse,
				}}}
			},
			want: map[string]Right{},
		},
		"one that ends before a decision has no right": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release, i.Status.Enforced = true, false }, want: map[string]Right{},
		},
		"from its release it takes away what it has here": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release = true },
			want:   map[string]Right{right: "Delete"},
		},
		"so it does from the deletion of its instruction": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.DeletionTimestamp = new(metav1.Now()) },
			want:   map[string]Right{right: "Delete"},
		},
		"a requester that cannot be a cluster has no right": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.RequesterClusterID = "team_a" }, want: map[string]Right{},
		},
		"when nothing is left the right is gone": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release, i.Status.Enforced = true, false }, want: map[string]Right{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := agentv1alpha1.ProviderInstruction{
				Spec:   agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-a", Placement: 1, RequesterClusterID: "rome"},
				Status: agentv1alpha1.ProviderInstructionStatus{Enforced: true},
			}
			test.change(&inst)
			if diff := cmp.Diff(test.want, Rights([]agentv1alpha1.ProviderInstruction{inst})); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyRightsAreDroppedUndecidedFirst(t *testing.T) {
	rights := map[string]Right{}
	for i := range 3000 {
		right := CreateRight
		if i%2 == 0 {
			right = WriteRight
		}
		rights[fmt.Sprintf("%040d%sres-%010d-1", i%2, rightsDomain, i)] = right
	}
	dropped := fitRights(rights)
	count, size := map[Right]int{}, 0
	for key, right := range rights {
		count[right]++
		size += len(key) + len(right)
	}
	if count[WriteRight] != 1500 || count[CreateRight] != 1500-dropped || dropped == 0 {
		t.Errorf("%d rights were dropped, and %v are left", dropped, count)
	}
	if size > mostRights || size < mostRights-200 {
		t.Errorf("the rights take %d bytes", size)
	}
}
