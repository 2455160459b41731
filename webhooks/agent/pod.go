package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// reserved is the virtual node of a request that wants its pods to comply.
type reserved struct {
	// Request is namespace/name, for people.
	Request     string
	Reservation string
	Node        *corev1.Node
}

// comply makes a pod one that the provider of its reservation admits, and reports whether
// it changed anything. A pod whose own node selector or affinity rules all of the nodes
// out has another place to go to, and one that fits several has to say which: both stay as
// they are.
//
// Liqo compares limits and requests of each container by itself, and knows nothing of
// resources of a pod as a whole.
func comply(pod *corev1.Pod, nodes []reserved) (webhooks.Verdict, bool) {
	var v webhooks.Verdict
	if pod.Spec.NodeName != "" {
		return v, false // whoever makes it has chosen
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(r reserved) bool {
		matches, err := required.Match(r.Node)
		return err != nil || !matches // the API server refuses what does not parse
	})
	switch len(nodes) {
	case 0:
		return v, false
	case 1:
	default:
		names := make([]string, len(nodes))
		for i, r := range nodes {
			names[i] = r.Request
		}
		v.Warn("pod is not pinned, since ResourceRequests %s want pods of this namespace: say which with the node selector %s",
			strings.Join(names, ", "), agentv1alpha1.ReservationLabel)
		return v, false
	}
	spec := field.NewPath("spec")
	changed := pin(&pod.Spec, nodes[0].Reservation)
	for _, set := range []struct {
		path       *field.Path
		containers []corev1.Container
	}{{spec.Child("initContainers"), pod.Spec.InitContainers}, {spec.Child("containers"), pod.Spec.Containers}} {
		for i := range set.containers {
			resources := &set.containers[i].Resources
			changed = equalise(resources) || changed
			v.Refuse(missing(set.path.Index(i).Child("resources", "requests"), resources, nodes[0].Request)...)
		}
	}
	return v, changed
}

func pin(spec *corev1.PodSpec, reservation string) bool {
	if spec.NodeSelector[agentv1alpha1.ReservationLabel] != "" {
		return false
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[agentv1alpha1.ReservationLabel] = reservation
	return true
}

// equalise raises requests to limits, which the container may use anyway, and gives what
// has no limit its request for one.
func equalise(r *corev1.ResourceRequirements) (changed bool) {
	for name, limit := range r.Limits {
		if request, ok := r.Requests[name]; !ok || request.Cmp(limit) != 0 {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit
			changed = true
		}
	}
	for name, request := range r.Requests {
		if _, ok := r.Limits[name]; !ok {
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = request
			changed = true
		}
	}
	return changed
}

// missing is what nobody can make up for a container.
func missing(path *field.Path, r *corev1.ResourceRequirements, request string) (errs field.ErrorList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := r.Requests[name]; !ok {
			errs = append(errs, field.Required(path.Key(string(name)),
				"the provider of ResourceRequest "+request+" admits no pod without it: set it, or give the namespace a LimitRange with defaults"))
		}
	}
	return errs
}
