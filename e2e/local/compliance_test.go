package local

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestPodsWithoutLimitsRunOnTheReservation runs a workload that sets requests, but no limits and no
// node. Liqo at the provider enforces limits.
func TestPodsWithoutLimitsRunOnTheReservation(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	r, err := rome.Request(ctx, namespace, "complies", small(), func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Offloading = &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceEnforce}
	})
	check(t, err)
	check(t, rome.AwaitReady(ctx, r, readyWithin))

	samples, err := e2e.ShippedSamples()
	check(t, err)
	check(t, rome.Deploy(ctx, namespace, samples.Deployment, nil, e2e.Named("complies"), withoutLimits))
	_, err = env.Watch(ctx, rome, namespace, r.Status.TargetClusterID, r.Status.NodeName)
	check(t, err)
	pods, err := rome.AwaitPods(ctx, namespace, 2, r.Status.NodeName, patience)
	check(t, err)
	for i := range pods {
		resources := pods[i].Spec.Containers[0].Resources
		if pods[i].Status.QOSClass != corev1.PodQOSGuaranteed || len(resources.Limits) != 2 {
			t.Errorf("pod %q is %s with %+v", pods[i].Name, pods[i].Status.QOSClass, resources)
		}
	}

	bare := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "registry.k8s.io/pause:3.10"}}},
		}
	}
	err = rome.Create(ctx, bare("bare"))
	if err == nil || !strings.Contains(err.Error(), "spec.containers[0].resources.requests[memory]") || !strings.Contains(err.Error(), "LimitRange") {
		t.Errorf("a pod that requests nothing: %v; want a refusal with the field and what to do", err)
	}
	here := bare("here")
	here.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "nowhere"}
	check(t, rome.Create(ctx, here))
	if here.Spec.NodeSelector[agentv1alpha1.ReservationLabel] != "" {
		t.Errorf("a pod that is to run elsewhere is pinned: %v", here.Spec.NodeSelector)
	}
	check(t, rome.DeleteAndWait(ctx, here, patience))
}

// withoutLimits removes the limits of a Deployment's first container.
func withoutLimits(u *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	first, _ := containers[0].(map[string]any)
	unstructured.RemoveNestedField(first, "resources", "limits")
	_ = unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
}
