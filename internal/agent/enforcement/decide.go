package enforcement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// DefaultPods bounds the pods of a placement whose grant names no number. It is the kubelet's
// default.
const DefaultPods = 110

// EvictionGrace is the grace period of an evicted pod. With one second the kubelet still
// confirms that the containers are gone. With zero the API server would delete the pod before
// that.
const EvictionGrace = time.Second

// Pod is a pod that has not finished. Its request includes one of the resource pods.
type Pod struct {
	types.NamespacedName
	UID types.UID
	// Owner is the UID of its ShadowPod, which has the same name.
	Owner types.UID
	// Placement is the one that the pod runs for.
	Placement string
	Created   time.Time
	Request   quantity.Amounts
	// Evicted is true once the pod is terminating within EvictionGrace.
	Evicted bool
}

// Allowance bounds the total requests of a placement's pods.
type Allowance struct {
	Limits quantity.Amounts
	// Before are the limits that applied until Reduced, when the consumer agreed to a
	// reduction. Pods created until then may use the old limits. Both fields are zero without a
	// reduction.
	Before  quantity.Amounts
	Reduced time.Time
}

// LimitsOf returns the limits for a placement from its kept amounts. A resource that these do
// not name is not granted, except pods.
func LimitsOf(kept corev1.ResourceList) (quantity.Amounts, error) {
	limits, err := quantity.FromResourceList(kept)
	if err != nil {
		return nil, fmt.Errorf("reading what is granted: %w", err)
	}
	if _, named := limits[corev1.ResourcePods]; !named {
		limits[corev1.ResourcePods] = DefaultPods
	}
	return limits, nil
}

// mostUnits bounds one amount of one pod: 64 TiB, which no real pod requests. No conversion
// overflows, and a hundred thousand pods add up within an int64.
const mostUnits = int64(1) << 46

// RequestOf returns a pod's requests by the rules of kube-scheduler: init containers and
// sidecars, overhead, pod-level resources, and resizes in flight. It rounds fractions up and
// counts negative amounts as zero.
func RequestOf(pod *corev1.Pod) quantity.Amounts {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	out := quantity.Amounts{}
	for name, q := range list {
		if units := unitsOf(name, q); units > 0 {
			out[name] = units
		}
	}
	out[corev1.ResourcePods] = 1
	return out
}

func unitsOf(name corev1.ResourceName, q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(mostUnits/1000) > 0 && name == corev1.ResourceCPU, q.CmpInt64(mostUnits) > 0:
		return mostUnits
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	}
	return q.Value()
}

// Used sums the requests of pods.
func Used(pods []Pod) quantity.Amounts {
	used := quantity.Amounts{}
	for i := range pods {
		addTo(used, pods[i].Request)
	}
	return used
}

// addTo adds b to sum in place. mostUnits prevents overflow.
func addTo(sum, b quantity.Amounts) {
	for name, amount := range b {
		sum[name] += amount
	}
}

// Excess returns by how much used exceeds the limits; it is empty if used fits. A resource that
// the limits do not name is not granted.
func Excess(used, limits quantity.Amounts) quantity.Amounts {
	over := quantity.Amounts{}
	for name, amount := range used {
		if amount > limits[name] && amount > 0 {
			over[name] = amount - limits[name]
		}
	}
	return over
}

// Beyond returns by how much the pods exceed the allowance. Pods created after a reduction must
// fit the new limits; older pods may use the old ones.
func (a *Allowance) Beyond(pods []Pod) quantity.Amounts {
	over := Excess(Used(pods), a.Limits)
	if a.Reduced.IsZero() || len(over) == 0 {
		return over
	}
	for i := range pods {
		if pods[i].Created.After(a.Reduced) {
			return over
		}
	}
	return Excess(Used(pods), a.Limits.Max(a.Before))
}

// Victims returns the pods to evict, newest first, so that the others fit the allowance. It
// spares pods that request none of the exceeded resources, and skips pods that are already
// being evicted.
func Victims(pods []Pod, a Allowance) (victims []Pod) {
	staying := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Evicted })
	slices.SortFunc(staying, newestFirst)
	used, before := Used(staying), a.Limits.Max(a.Before)
	for i := range staying {
		pod := &staying[i]
		limits := a.Limits
		if !a.Reduced.IsZero() && !pod.Created.After(a.Reduced) {
			limits = before
		}
		if !contributesTo(pod, Excess(used, limits)) {
			continue
		}
		victims = append(victims, *pod)
		for name, amount := range pod.Request {
			used[name] -= amount
		}
	}
	return victims
}

func contributesTo(pod *Pod, over quantity.Amounts) bool {
	for name := range over {
		if pod.Request[name] > 0 {
			return true
		}
	}
	return false
}

// newestFirst orders pods created in the same second by name, so that repeated calls choose the
// same pods.
func newestFirst(a, b Pod) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name), cmp.Compare(b.Namespace, a.Namespace))
}
