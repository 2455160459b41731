package capacity

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// unboundPods makes the API server filter out pods with a node. It reports a pod as deleted
// once the pod is bound.
const unboundPods = "spec.nodeName=,status.phase=Pending"

// maxPending bounds a single amount: 32 TiB, or as many units. Pending requests need not
// fit any node, and a quarter of a million such pods still add up within an int64.
const maxPending int64 = 1 << 45

// demand sums the requests of unschedulable pods. It keeps only those pods.
type demand struct {
	pods map[podKey]request
	sum  quantity.Amounts
}

var _ podAccounts[*request] = (*demand)(nil)

func newDemand() *demand {
	return &demand{pods: map[podKey]request{}, sum: quantity.Amounts{}}
}

// setPod records a pod and reports whether anything changed. A nil request removes the pod.
func (d *demand) setPod(key podKey, wants *request) bool {
	old, was := d.pods[key]
	switch {
	case wants == nil && !was, wants != nil && was && wants.equal(&old):
		return false
	case was:
		old.addTo(d.sum, -1)
		delete(d.pods, key)
	}
	if wants != nil {
		wants.addTo(d.sum, +1)
		d.pods[key] = *wants
	}
	// Remove zero amounts: unschedulable pods may request any number of resources under any
	// name.
	maps.DeleteFunc(d.sum, func(_ corev1.ResourceName, amount int64) bool { return amount == 0 })
	return true
}

func (d *demand) removePod(key podKey) bool { return d.setPod(key, nil) }

// replacePods makes the given pods the only ones.
func (d *demand) replacePods(wants map[podKey]*request) bool {
	changed := false
	for key := range d.pods {
		if wants[key] == nil {
			changed = d.removePod(key) || changed
		}
	}
	for key, r := range wants {
		changed = d.setPod(key, r) || changed
	}
	return changed
}

// demandOf returns the request of a pod of this cluster's own that the scheduler finds no node
// for; nil for any other pod. It ignores pods that the scheduler has not tried yet, and pods
// behind a scheduling gate, because their owner does not want them to run yet.
func demandOf(pod *corev1.Pod) *request {
	if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil ||
		!isUnschedulable(pod) || placementOf(&pod.ObjectMeta) != "" {
		return nil
	}
	r := requestOf(pod)
	r.limitAmounts(maxPending)
	return &r
}

func isUnschedulable(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}
