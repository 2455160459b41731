package capacity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Use is the capacity that a pod run by Liqo takes from its placement.
type Use struct {
	Placement string
	// Request is the pod's request, including one of the resource pods.
	Request quantity.Amounts
	// Over is true once the pod has finished.
	Over bool
}

// UseOf returns the use of a pod; ok is false if the pod runs for no placement.
func UseOf(pod *corev1.Pod) (u Use, ok bool) {
	if u.Placement = placementOf(&pod.ObjectMeta); u.Placement == "" {
		return Use{}, false
	}
	u.Request = quantity.Amounts{}
	request := requestOf(pod)
	request.addTo(u.Request, +1)
	u.Over = Finished(pod)
	return u, true
}

// PlacementOf returns the placement that a pod runs for, or "".
func PlacementOf(pod *metav1.ObjectMeta) string { return placementOf(pod) }
