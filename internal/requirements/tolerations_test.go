package requirements

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestTolerationsMatchLikeThoseOfPods(t *testing.T) {
	gpu := brokerv1alpha1.Taint{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}
	cases := map[string]struct {
		tolerations []brokerv1alpha1.Toleration
		taints      []brokerv1alpha1.Taint
		want        bool
	}{
		"no taints":                            {nil, nil, true},
		"no tolerations":                       {nil, []brokerv1alpha1.Taint{gpu}, false},
		"the same value and effect":            {[]brokerv1alpha1.Toleration{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}}, []brokerv1alpha1.Taint{gpu}, true},
		"every effect":                         {[]brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Equal", Value: "gpu"}}, []brokerv1alpha1.Taint{gpu}, true},
		"every value":                          {[]brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}, []brokerv1alpha1.Taint{gpu}, true},
		"another value":                        {[]brokerv1alpha1.Toleration{{Key: "dedicated", Value: "web"}}, []brokerv1alpha1.Taint{gpu}, false},
		"no value":                             {[]brokerv1alpha1.Toleration{{Key: "dedicated"}}, []brokerv1alpha1.Taint{gpu}, false},
		"another effect":                       {[]brokerv1alpha1.Toleration{{Key: "dedicated", Value: "gpu", Effect: "NoExecute"}}, []brokerv1alpha1.Taint{gpu}, false},
		"another key":                          {[]brokerv1alpha1.Toleration{{Key: "spot", Operator: "Exists"}}, []brokerv1alpha1.Taint{gpu}, false},
		"one of two taints":                    {[]brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}, []brokerv1alpha1.Taint{gpu, {Key: "spot", Effect: "NoExecute"}}, false},
		"two taints by a toleration for each":  {[]brokerv1alpha1.Toleration{{Key: "spot"}, {Key: "dedicated", Operator: "Exists"}}, []brokerv1alpha1.Taint{gpu, {Key: "spot", Effect: "NoExecute"}}, true},
		"more tolerations than the node needs": {[]brokerv1alpha1.Toleration{{Key: "spot"}, {Key: "dedicated", Operator: "Exists"}}, []brokerv1alpha1.Taint{gpu}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := TolerateAll(tc.tolerations, tc.taints); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}

func TestPodsGetOnlyTolerationsOfOfferedTaints(t *testing.T) {
	offered := []brokerv1alpha1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}, {Key: "spot", Effect: "NoExecute"}}
	asked := []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}, {Key: "payroll", Operator: "Exists"}}
	want := []corev1.Toleration{{Key: "dedicated", Operator: "Equal", Value: "gpu", Effect: "NoSchedule"}}
	if diff := cmp.Diff(want, TolerationsFor(asked, offered)); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestRequestsTolerateTheTaintsOfTheirDevices(t *testing.T) {
	own := []brokerv1alpha1.Toleration{{Key: "dedicated"}}
	amounts := quantity.Amounts{"cpu": 1000, "nvidia.com/gpu": 1, "amd.com/gpu": 2, "none.example.com/device": 0, "example.k8s.io/device": 1, "hugepages-2Mi": 1}
	want := append(slices.Clone(own), brokerv1alpha1.Toleration{Key: "amd.com/gpu", Operator: "Exists"}, brokerv1alpha1.Toleration{Key: "nvidia.com/gpu", Operator: "Exists"})
	if diff := cmp.Diff(want, WithDevices(own, amounts)); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestTolerationsThatNoProviderGrantsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		toleration brokerv1alpha1.Toleration
		says       string
	}{
		"every taint":              {brokerv1alpha1.Toleration{Operator: "Exists"}, "tolerations[0]: key is empty"},
		"a taint of a cordon":      {brokerv1alpha1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: "Exists"}, "never offered"},
		"a taint of control plane": {brokerv1alpha1.Toleration{Key: "node-role.kubernetes.io/control-plane"}, "never offered"},
		"a taint of an autoscaler": {brokerv1alpha1.Toleration{Key: "ToBeDeletedByClusterAutoscaler"}, "never offered"},
		"a taint of Liqo":          {brokerv1alpha1.Toleration{Key: "virtual-node.liqo.io/not-allowed"}, "never offered"},
		"a value for Exists":       {brokerv1alpha1.Toleration{Key: "spot", Operator: "Exists", Value: "a"}, "operator Exists has none"},
		"an unknown operator":      {brokerv1alpha1.Toleration{Key: "spot", Operator: "In"}, "use Equal or Exists"},
		"an unknown effect":        {brokerv1alpha1.Toleration{Key: "spot", Effect: "PreferNoSchedule"}, "use NoSchedule or NoExecute"},
		"a key that is none":       {brokerv1alpha1.Toleration{Key: "a b"}, "is not a label key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(&brokerv1alpha1.Requirements{Constraints: &brokerv1alpha1.Constraints{Tolerations: []brokerv1alpha1.Toleration{tc.toleration}}})
			if err == nil || !strings.Contains(err.Error(), "constraints.tolerations[0]") || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want constraints.tolerations[0] and %q", err, tc.says)
			}
		})
	}
}

func TestTaintsAreReadLikeThoseOfKubectl(t *testing.T) {
	for text, want := range map[string]brokerv1alpha1.Taint{
		"dedicated=gpu:NoSchedule":   {Key: "dedicated", Value: "gpu", Effect: "NoSchedule"},
		"example.com/spot:NoExecute": {Key: "example.com/spot", Effect: "NoExecute"},
	} {
		if got, err := ParseTaint(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, wrong := range []string{"", "dedicated", "dedicated=gpu", ":NoSchedule", "a b:NoSchedule", "spot:PreferNoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"} {
		if _, err := ParseTaint(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
