package capacity

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Use is the capacity that a pod takes from its placement, for which Liqo runs it.
type Use struct {
	Placement string
	// Request is the pod's request. It includes the pod itself, as 1 of the resource "pods".
	Request quantity.Amounts
	// Over is true if the pod has finished.
	Over bool
}

// UseOf returns what a pod takes from its placement. ok is false if the pod does not run for a
// placement.
func UseOf(pod *corev1.Pod) (u Use, ok bool) {
	if u.Placement = PlacementOf(&pod.ObjectMeta); u.Placement == "" {
		return Use{}, false
	}
	u.Request = quantity.Amounts{}
	request := requestOf(pod)
	request.addTo(u.Request, +1)
	u.Over = Finished(pod)
	return u, true
}
