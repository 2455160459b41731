package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// ofRome is the suffix of the names of rome's identities: a digest of its ID.
const ofRome = "-a8a4c692b93b"

func TestRightsFollowTheReservation(t *testing.T) {
	tests := map[string]struct {
		change func(*agentv1alpha1.ProviderInstruction)
		want   map[string]agentv1alpha1.PeerRight
	}{
		"while it stands its identity writes": {
			change: func(*agentv1alpha1.ProviderInstruction) {}, want: map[string]agentv1alpha1.PeerRight{"res-a-1" + ofRome: "Write", "rome/res-a-1": "Write"},
		},
		"while this cluster decides the slice may be created": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced = false },
			want:   map[string]agentv1alpha1.PeerRight{"rome/res-a-1": "Write"},
		},
		"one that this cluster refuses has no right": {
			change: func(i *agentv1alpha1.ProviderInstruction) {
				i.Status = agentv1alpha1.ProviderInstructionStatus{Conditions: []metav1.Condition{{
					Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse,
				}}}
			},
			want: map[string]agentv1alpha1.PeerRight{},
		},
		"one that ends before a decision has no right": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release, i.Status.Enforced = true, false }, want: map[string]agentv1alpha1.PeerRight{},
		},
		"from its release it takes away what it has here": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release = true },
			want:   map[string]agentv1alpha1.PeerRight{"res-a-1" + ofRome: "Delete", "rome/res-a-1": "Delete"},
		},
		"so it does from the deletion of its instruction": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.DeletionTimestamp = new(metav1.Now()) },
			want:   map[string]agentv1alpha1.PeerRight{"res-a-1" + ofRome: "Delete", "rome/res-a-1": "Delete"},
		},
		"when nothing is left the right is gone": {
			change: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release, i.Status.Enforced = true, false }, want: map[string]agentv1alpha1.PeerRight{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := agentv1alpha1.ProviderInstruction{
				Spec:   agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-a", Placement: 1, RequesterClusterID: "rome"},
				Status: agentv1alpha1.ProviderInstructionStatus{Enforced: true},
			}
			test.change(&inst)
			test.want["cluster.rome"] = "None"
			if diff := cmp.Diff(test.want, Rights([]agentv1alpha1.ProviderInstruction{inst}, []string{"rome"})); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}
