package autoscaling

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// maxShapes is how many pod shapes a ResourceRequest can have.
const maxShapes = 16

// Pods are a number of pods of one template.
type Pods struct {
	// Template is the name of the PodTemplate, for error messages.
	Template string
	Spec     corev1.PodSpec
	Count    int32
}

// PodShapes returns the shapes of the given pods. Pods with the same requests share a shape, whatever template they
// have.
func PodShapes(sets []Pods) ([]brokerv1alpha1.PodShape, error) {
	var shapes []brokerv1alpha1.PodShape
	for _, set := range sets {
		requests, err := requestsOf(&set)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(shapes, func(s brokerv1alpha1.PodShape) bool { return equality.Semantic.DeepEqual(s.Resources, requests) })
		if i < 0 {
			shapes = append(shapes, brokerv1alpha1.PodShape{Count: set.Count, Resources: requests})
			continue
		}
		shapes[i].Count = int32(min(int64(shapes[i].Count)+int64(set.Count), math.MaxInt32))
	}
	if len(shapes) > maxShapes {
		return nil, fmt.Errorf("podSets: %d different sizes of pods, a ResourceRequest has at most %d: give pods the same requests, or use several ProvisioningRequests", len(shapes), maxShapes)
	}
	return shapes, nil
}

// requestsOf returns the requests of one pod by Kubernetes' own rules, with init containers, sidecars, overhead and
// pod-level resources. A container without a request for a resource requests its limit, as in every pod that
// Kubernetes creates.
func requestsOf(set *Pods) (brokerv1alpha1.PodResources, error) {
	pod := &corev1.Pod{Spec: *set.Spec.DeepCopy()}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Resources.Requests = withLimits(&containers[i].Resources)
		}
	}
	if pod.Spec.Resources != nil {
		pod.Spec.Resources.Requests = withLimits(pod.Spec.Resources)
	}
	requests := brokerv1alpha1.PodResources{}
	for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if !amount.IsZero() {
			requests[name] = amount
		}
	}
	var missing []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, found := requests[name]; !found {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("pod template %q has no request for %s: set resources.requests of its containers, because providers accept no pods without them", set.Template, strings.Join(missing, " and "))
	}
	return requests, nil
}

// withLimits returns the requests and, for each resource without a request, its limit.
func withLimits(r *corev1.ResourceRequirements) corev1.ResourceList {
	out := maps.Clone(r.Limits)
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, r.Requests)
	return out
}
