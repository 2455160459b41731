package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func slice(asked corev1.ResourceList) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "res-a-1", Namespace: "liqo-tenant-rome"},
		Spec: authv1beta1.ResourceSliceSpec{
			Class: object.SliceClass, ConsumerClusterID: ptr.To(liqov1beta1.ClusterID("rome")), Resources: asked,
		},
	}
}

func instruction(kept corev1.ResourceList) *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Name: "res-a-1"},
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-a", Placement: 1, RequesterClusterID: "rome", Resources: kept},
		Status:     agentv1alpha1.ProviderInstructionStatus{Enforced: true},
	}
}

func TestDecideGrantsOnlyKeptAmounts(t *testing.T) {
	kept := amounts("cpu", "2", "memory", "4Gi")
	tests := map[string]struct {
		asked, want corev1.ResourceList
	}{
		"as much":                             {asked: amounts("cpu", "2", "memory", "4Gi"), want: amounts("cpu", "2", "memory", "4Gi", "pods", "110")},
		"more than is kept":                   {asked: amounts("cpu", "1000", "memory", "4Gi"), want: amounts("cpu", "2", "memory", "4Gi", "pods", "110")},
		"less than is kept":                   {asked: amounts("cpu", "500m", "memory", "4Gi"), want: amounts("cpu", "500m", "memory", "4Gi", "pods", "110")},
		"a resource that is not kept":         {asked: amounts("cpu", "2", "nvidia.com/gpu", "1"), want: amounts("cpu", "2", "pods", "110")},
		"the same amount in other words":      {asked: amounts("cpu", "2000m", "memory", "4096Mi"), want: amounts("cpu", "2", "memory", "4Gi", "pods", "110")},
		"nothing":                             {asked: nil, want: amounts("pods", "110")},
		"only a resource that is not kept":    {asked: amounts("pods", "10"), want: amounts("pods", "110")},
		"a resource that is kept and unasked": {asked: amounts("cpu", "1"), want: amounts("cpu", "1", "pods", "110")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(slice(test.asked), "rome", instruction(kept), Place{Region: "west"})
			if !got.Granted {
				t.Fatalf("denied: %s", got.Message)
			}
			if diff := cmp.Diff(test.want, got.Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			labels := map[string]string{agentv1alpha1.ReservationLabel: "res-a", corev1.LabelTopologyRegion: "west"}
			if diff := cmp.Diff(labels, got.NodeLabels); diff != "" {
				t.Errorf("node labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideGrantsAsManyPodsAsAreKept(t *testing.T) {
	kept := amounts("cpu", "2", "pods", "10")
	got := Decide(slice(amounts("cpu", "2", "pods", "50")), "rome", instruction(kept), Place{})
	if diff := cmp.Diff(kept, got.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// A request is not granted before this cluster has agreed. Resources that this cluster no longer
// keeps are set to zero.
func TestDecideGrantsOnlyAgreedAmounts(t *testing.T) {
	inst := instruction(amounts("cpu", "8"))
	inst.Status.Granted = amounts("cpu", "2", "memory", "4Gi")
	replica := slice(amounts("cpu", "8", "memory", "4Gi", "nvidia.com/gpu", "1"))
	replica.Status.Resources = amounts("cpu", "8", "memory", "8Gi", "nvidia.com/gpu", "1", "pods", "110")
	got := Decide(replica, "rome", inst, Place{})
	want := amounts("cpu", "2", "memory", "4Gi", "nvidia.com/gpu", "0", "pods", "110")
	for name, amount := range want {
		if given := got.Resources[name]; given.Cmp(amount) != 0 {
			t.Errorf("%s of %s is granted, want %s", given.String(), name, amount.String())
		}
	}
	if len(got.Resources) != len(want) {
		t.Errorf("granted %v", got.Resources)
	}
}

func TestDecideDeniesUnreservedAmounts(t *testing.T) {
	now := metav1.NewTime(time.Unix(0, 0))
	tests := map[string]struct {
		peer   string
		slice  func(*authv1beta1.ResourceSlice)
		change func(*agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction
	}{
		"no instruction": {change: func(*agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction { return nil }},
		"an instruction for another consumer": {
			change: func(i *agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction {
				i.Spec.RequesterClusterID = "berlin"
				return i
			},
		},
		"another consumer's namespace": {peer: "berlin"},
		"a slice that names another consumer": {
			slice: func(s *authv1beta1.ResourceSlice) { s.Spec.ConsumerClusterID = ptr.To(liqov1beta1.ClusterID("berlin")) },
		},
		"an instruction that was released": {
			change: func(i *agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction {
				i.Spec.Release = true
				return i
			},
		},
		"an instruction that is being deleted": {
			change: func(i *agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction {
				i.DeletionTimestamp = &now
				return i
			},
		},
		"an instruction that was not acknowledged": {
			change: func(i *agentv1alpha1.ProviderInstruction) *agentv1alpha1.ProviderInstruction {
				i.Status.Enforced = false
				return i
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, inst, peer := slice(amounts("cpu", "1")), instruction(amounts("cpu", "1")), "rome"
			if test.peer != "" {
				peer = test.peer
			}
			if test.slice != nil {
				test.slice(s)
			}
			if test.change != nil {
				inst = test.change(inst)
			}
			got := Decide(s, peer, inst, Place{})
			if got.Granted || got.Resources != nil || got.Message == "" {
				t.Errorf("got %+v, want a denial that says why", got)
			}
		})
	}
}

func TestRecordWritesADecisionOnce(t *testing.T) {
	s := slice(amounts("cpu", "1"))
	first, later := metav1.NewTime(time.Unix(10, 0)), metav1.NewTime(time.Unix(20, 0))
	granted := Decide(s, "rome", instruction(amounts("cpu", "1")), Place{})
	if !granted.Record(s, first) {
		t.Error("a grant changed nothing")
	}
	if granted.Record(s, later) {
		t.Error("the same grant was written again")
	}
	denied := Decide(s, "rome", nil, Place{})
	if !denied.Record(s, later) {
		t.Error("a denial changed nothing")
	}
	want := []authv1beta1.ResourceSliceCondition{{
		Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionDenied,
		Reason: "NoReservation", Message: denied.Message, LastTransitionTime: later,
	}}
	if diff := cmp.Diff(want, s.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(amounts("cpu", "1", "pods", "110"), s.Status.Resources); diff != "" {
		t.Errorf("resources of a denied slice (-want +got):\n%s", diff)
	}
}
