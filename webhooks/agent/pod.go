package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// reservedNode is the virtual node of a request with podCompliance Enforce.
type reservedNode struct {
	// Request is the namespace/name of the request, for messages.
	Request     string
	Reservation string
	Node        *corev1.Node
}

// makeCompliant changes a pod so that the provider of its reservation admits it, and reports
// whether it changed the pod. Three kinds of pods stay unchanged: those that name their node, those
// whose own node selector or affinity excludes all the given nodes, because they run elsewhere, and
// those that match several of these nodes, because their author must choose one.
//
// It sets the resources of each container, because Liqo compares requests and limits per container
// and ignores the resources of the pod as a whole.
func makeCompliant(pod *corev1.Pod, nodes []reservedNode) (webhooks.Verdict, bool) {
	var v webhooks.Verdict
	if pod.Spec.NodeName != "" {
		return v, false // the author of the pod has chosen a node
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(r reservedNode) bool {
		matches, err := required.Match(r.Node)
		return err != nil || !matches // the API server refuses an affinity that cannot be parsed
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
		v.Warn("the pod is not pinned, because several ResourceRequests offload this namespace: %s; choose one with the node selector %s",
			strings.Join(names, ", "), agentv1alpha1.RequestLabel)
		return v, false
	}
	spec := field.NewPath("spec")
	if hasPodLevelAmounts(&pod.Spec) {
		v.Refuse(field.Invalid(spec.Child("resources"), field.OmitValueType{}, podLevelRemedy))
		return v, false
	}
	v.Warnings = append(v.Warnings, raisedRequests(&pod.Spec)...)
	changed := pinToReservation(&pod.Spec, nodes[0].Reservation)
	for _, set := range []struct {
		path       *field.Path
		containers []corev1.Container
	}{{spec.Child("initContainers"), pod.Spec.InitContainers}, {spec.Child("containers"), pod.Spec.Containers}} {
		for i := range set.containers {
			resources := &set.containers[i].Resources
			changed = equaliseResources(resources) || changed
			v.Refuse(missingRequests(set.path.Index(i).Child("resources", "requests"), resources, nodes[0].Request)...)
		}
	}
	return v, changed
}

// podLevelRemedy says why amounts in spec.resources are useless, and what to do.
const podLevelRemedy = "Liqo copies and counts only the amounts of containers: set requests and limits in spec.containers[].resources instead"

func hasPodLevelAmounts(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

// raisedRequests returns a warning for each request that equaliseResources raises to its limit.
func raisedRequests(spec *corev1.PodSpec) (warnings []string) {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if !request.IsZero() && request.Cmp(limit) < 0 {
				warnings = append(warnings, fmt.Sprintf("container %q: the request of %s is raised from %s to its limit %s, because providers admit only equal ones; lower the limit to use less of the reservation",
					c.Name, name, request.String(), limit.String()))
			}
		}
	}
	return warnings
}

// unsupportedFields warns of each field that has no effect at a provider without an error, and of volumes that
// providers refuse by default.
func unsupportedFields(spec *corev1.PodSpec) (warnings []string) {
	for i := range spec.ResourceClaims {
		warnings = append(warnings, fmt.Sprintf("spec.resourceClaims[%d]: claim %q cannot be used at a provider, and the pod stays Pending: request an extended resource such as nvidia.com/gpu, or run the pod in this cluster",
			i, spec.ResourceClaims[i].Name))
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if burst.IsLocalVolume(*v) {
			warnings = append(warnings, fmt.Sprintf("spec.volumes[%d]: volume %q is of a type that providers refuse unless they lend it, and the pod stays Pending then: use emptyDir, a ConfigMap or a Secret, or run the pod in this cluster",
				i, v.Name))
		}
		// The API server adds a volume with this name to every pod, which its author cannot avoid.
		if v.Projected == nil || strings.HasPrefix(v.Name, "kube-api-access-") {
			continue
		}
		if slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			warnings = append(warnings, fmt.Sprintf("spec.volumes[%d]: volume %q has a serviceAccountToken, which is missing at providers that lend no service account: mount a Secret with credentials instead",
				i, v.Name))
		}
	}
	return warnings
}

func pinToReservation(spec *corev1.PodSpec, reservation string) bool {
	if spec.NodeSelector[agentv1alpha1.ReservationLabel] != "" {
		return false
	}
	if spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	spec.NodeSelector[agentv1alpha1.ReservationLabel] = reservation
	return true
}

// equaliseResources makes the requests and limits of a container equal. It raises or lowers each
// request to its limit, and sets each missing limit to the request. It reports whether it changed
// anything.
func equaliseResources(r *corev1.ResourceRequirements) (changed bool) {
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

// requiredResources are the resources that every container must request: otherwise a provider that
// enforces reservations does not admit the pod.
var requiredResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// missingRequests returns an error for each required resource that a container does not request.
func missingRequests(path *field.Path, r *corev1.ResourceRequirements, request string) (errs field.ErrorList) {
	for _, name := range requiredResources {
		if _, ok := r.Requests[name]; !ok {
			errs = append(errs, field.Required(path.Key(string(name)),
				"the provider of ResourceRequest "+request+" admits no pod without it: set it, or give the namespace a LimitRange with defaults"))
		}
	}
	return errs
}
