package liqo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
)

func TestExceedsKept(t *testing.T) {
	kept := listOf("cpu", "2", "memory", "4Gi")
	tests := map[string]struct {
		given corev1.ResourceList
		want  bool
	}{
		"nothing":                     {},
		"as much":                     {listOf("cpu", "2", "memory", "4Gi", "pods", "110"), false},
		"less":                        {listOf("cpu", "1", "nvidia.com/gpu", "0"), false},
		"more":                        {listOf("cpu", "2001m"), true},
		"what is not kept":            {listOf("nvidia.com/gpu", "1"), true},
		"more of one, less of others": {listOf("cpu", "1", "memory", "5Gi"), true},
	}
	for name, tc := range tests {
		if got := exceedsKept(tc.given, kept); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if !exceedsKept(listOf("pods", "110"), listOf("cpu", "1", "pods", "10")) {
		t.Error("more pods than are kept do not exceed it")
	}
}

// A slice keeps requesting zero of a resource that it requested before.
func TestSliceRequestsZeroOfResourcesNoLongerReserved(t *testing.T) {
	before, reserved := listOf("cpu", "4", "nvidia.com/gpu", "1"), listOf("cpu", "2")
	now := sliceResources(before, reserved)
	if gpus := now["nvidia.com/gpu"]; !gpus.IsZero() || len(now) != 2 || !now.Cpu().Equal(reserved["cpu"]) {
		t.Errorf("asks for %v", now)
	}
	slice := func(asked corev1.ResourceList) *authv1beta1.ResourceSlice {
		return &authv1beta1.ResourceSlice{Spec: authv1beta1.ResourceSliceSpec{Resources: asked}}
	}
	current := slice(now)
	if !sliceView(current, reserved).Current || sliceView(slice(before), reserved).Current {
		t.Error("the slice that asks for it is not the current one")
	}
}

func listOf(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}
