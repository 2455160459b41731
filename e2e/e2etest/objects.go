package e2etest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// ShadowPod returns the ShadowPod that a virtual kubelet writes for a small pod of a consumer on a
// slice.
func ShadowPod(consumer, slice, namespace, name string) *unstructured.Unstructured {
	pod := e2e.Object(e2e.ShadowPodKind, namespace, name)
	pod.SetLabels(map[string]string{"offloading.liqo.io/origin": consumer, "offloading.liqo.io/nodename": slice})
	pod.Object["spec"] = map[string]any{"pod": map[string]any{
		"containers":                   []any{Container("main", map[string]any{"cpu": "100m", "memory": "16Mi"})},
		"automountServiceAccountToken": false,
	}}
	return pod
}

// Container returns a container whose limits equal its requests.
func Container(name string, amounts map[string]any) map[string]any {
	return map[string]any{"name": name, "image": "registry.k8s.io/pause:3.10", "resources": map[string]any{"requests": amounts, "limits": amounts}}
}

// Note returns a small ConfigMap.
func Note(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"note": name}}
}
