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

// DefaultPods is how many pods a placement may have if its grant does not limit their number. It is
// the kubelet's default for one node.
const DefaultPods = 110

// EvictionGrace is the grace period of an evicted pod. With one second, the kubelet confirms that
// the containers have stopped. With zero, the API server would delete the pod before the containers
// have stopped.
const EvictionGrace = time.Second

// Pod holds the facts about a pod that enforcement needs. Request includes the pod itself, as 1 of
// the resource "pods".
type Pod struct {
	types.NamespacedName
	UID types.UID
	// Owner is the UID of the pod's ShadowPod, which has the same name as the pod.
	Owner types.UID
	// Placement is the name of the placement that the pod runs for.
	Placement string
	Created   time.Time
	Request   quantity.Amounts
	// Evicted is true if the pod is being deleted with a grace period of at most EvictionGrace.
	Evicted bool
}

// Allowance limits the sum of the requests of a placement's pods.
type Allowance struct {
	Limits quantity.Amounts
	// Reduced is when the consumer agreed to smaller limits, and Before holds the limits that
	// applied until then. Pods that were created before Reduced may still use the old limits. Both
	// fields are zero if the limits were never reduced.
	Before  quantity.Amounts
	Reduced time.Time
}

// LimitsOf converts the amounts that are kept for a placement to limits for its pods. A resource
// that is not in kept may not be used, except "pods", whose limit is then DefaultPods.
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

// mostUnits limits a single amount of a pod, for example to 64 TiB of memory, which is more than
// any real pod requests. With this limit no conversion overflows, and the sum over a hundred
// thousand pods fits into an int64.
const mostUnits = int64(1) << 46

// RequestOf returns a pod's requests by the rules of kube-scheduler: they include init containers
// and sidecars, overhead, pod-level resources, and resizes in progress. Fractions are rounded up,
// and negative amounts are ignored.
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

// Used returns the sum of the requests of pods.
func Used(pods []Pod) quantity.Amounts {
	used := quantity.Amounts{}
	for i := range pods {
		used.AddInPlace(pods[i].Request)
	}
	return used
}

// Excess returns by how much used exceeds the limits. The result is empty if nothing exceeds them.
// A resource that is not in limits has a limit of zero.
func Excess(used, limits quantity.Amounts) quantity.Amounts {
	over := quantity.Amounts{}
	for name, amount := range used {
		if amount > limits[name] && amount > 0 {
			over[name] = amount - limits[name]
		}
	}
	return over
}

// Beyond returns by how much the pods exceed the allowance. After a reduction, the old limits apply
// as long as all pods are older than the reduction. With the first newer pod, the new limits apply
// to all pods together.
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

// Victims returns the pods to evict, newest first, so that the other pods fit into the allowance.
// It skips pods that request none of the exceeded resources, and pods that are being evicted
// already.
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

// newestFirst compares pods by their time of creation, newest first. Pods created in the same
// second are compared by name and namespace, in descending order, so that repeated calls choose the
// same pods.
func newestFirst(a, b Pod) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name), cmp.Compare(b.Namespace, a.Namespace))
}
