package agent

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
)

// The labels of Liqo's virtual nodes. They are repeated here because only the
// packages under liqo may import Liqo.
const (
	liqoTypeLabel    = "liqo.io/type"
	liqoClusterLabel = "liqo.io/remote-cluster-id"
)

// selectsRequest reports whether a pod selects virtual nodes by the label of a request or a
// reservation. The webhook configuration in the chart contains the same rule, so both must be
// changed together.
func selectsRequest(spec *corev1.PodSpec) bool {
	names := func(key string) bool {
		return key == agentv1alpha1.RequestLabel || key == agentv1alpha1.ReservationLabel
	}
	return selectsByLabel(spec, names) || slices.ContainsFunc(requiredTerms(spec), func(t corev1.NodeSelectorTerm) bool {
		return demandsLabel(t, names)
	})
}

// selectsVirtualNodes reports whether a pod selects virtual nodes, by any of their labels or by
// name. Liqo's labels do not count in affinities, because Liqo's own webhook adds them to pods.
func selectsVirtualNodes(spec *corev1.PodSpec) bool {
	ours := func(key string) bool {
		switch key {
		case agentv1alpha1.RequestLabel, agentv1alpha1.RequestNamespaceLabel, agentv1alpha1.ReservationLabel, agentv1alpha1.SharedLabel, corev1.LabelHostname:
			return true
		}
		return strings.HasPrefix(key, agentv1alpha1.NamespaceLabelPrefix)
	}
	return selectsByLabel(spec, func(key string) bool { return key == liqoTypeLabel || key == liqoClusterLabel || ours(key) }) ||
		slices.ContainsFunc(requiredTerms(spec), func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 || demandsLabel(t, ours) })
}

func selectsByLabel(spec *corev1.PodSpec, wanted func(key string) bool) bool {
	for key := range spec.NodeSelector {
		if wanted(key) {
			return true
		}
	}
	return false
}

func demandsLabel(term corev1.NodeSelectorTerm, wanted func(key string) bool) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
		return wanted(e.Key) && (e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpExists)
	})
}

func requiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// qualifyRequests adds the pod's namespace to each selection of a request by name only. Otherwise
// the pod could run on the node of a request with the same name in another namespace.
func qualifyRequests(spec *corev1.PodSpec, namespace string) (changed bool) {
	if spec.NodeSelector[agentv1alpha1.RequestNamespaceLabel] != "" {
		return false
	}
	if spec.NodeSelector[agentv1alpha1.RequestLabel] != "" {
		spec.NodeSelector[agentv1alpha1.RequestNamespaceLabel] = namespace
		return true
	}
	terms := requiredTerms(spec)
	for i := range terms {
		named := demandsLabel(terms[i], func(key string) bool { return key == agentv1alpha1.RequestLabel })
		qualified := demandsLabel(terms[i], func(key string) bool { return key == agentv1alpha1.RequestNamespaceLabel })
		if named && !qualified {
			terms[i].MatchExpressions = append(terms[i].MatchExpressions, corev1.NodeSelectorRequirement{
				Key: agentv1alpha1.RequestNamespaceLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{namespace},
			})
			changed = true
		}
	}
	return changed
}

// tolerateVirtualNodes adds the toleration of virtual nodes that Liqo's webhook gives to pods in
// offloaded namespaces. Pods need it if they are created before their request, when their namespace
// is not offloaded yet: nothing would add the toleration later.
func tolerateVirtualNodes(spec *corev1.PodSpec) bool {
	if burst.ToleratesVirtualNodes(spec.Tolerations) {
		return false
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: burst.VirtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
	})
	return true
}

// leavesPinnedPods reports whether a pod selects a request with podCompliance None: it must stay unchanged.
func leavesPinnedPods(requests []agentv1alpha1.ResourceRequest, spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(requests, func(rr agentv1alpha1.ResourceRequest) bool {
		if rr.Spec.Offloading == nil || rr.Spec.Offloading.PodCompliance != agentv1alpha1.PodComplianceNone {
			return false
		}
		labels := agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name)
		labels[agentv1alpha1.ReservationLabel] = rr.Status.ReservationName
		byName := selectsValue(spec, agentv1alpha1.RequestLabel, labels) && selectsValue(spec, agentv1alpha1.RequestNamespaceLabel, labels)
		return byName || selectsValue(spec, agentv1alpha1.ReservationLabel, labels)
	})
}

// selectsValue reports whether a pod selects nodes whose label key has the value labels[key].
func selectsValue(spec *corev1.PodSpec, key string, labels map[string]string) bool {
	value := labels[key]
	if value == "" {
		return false
	}
	return spec.NodeSelector[key] == value || slices.ContainsFunc(requiredTerms(spec), func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == key && e.Operator == corev1.NodeSelectorOpIn && slices.Contains(e.Values, value)
		})
	})
}

// equalisePod makes the requests and limits of all containers equal. It returns a warning for each
// required resource that a container neither requests nor limits, and for each request that it
// raises. If the amounts are set on the pod, the only warning says so.
func equalisePod(spec *corev1.PodSpec) (warnings []string, changed bool) {
	warnings = raisedRequests(spec)
	podLevel := hasPodLevelAmounts(spec)
	if podLevel {
		warnings = []string{"spec.resources: " + podLevelRemedy}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			changed = equaliseResources(resources) || changed
			for _, name := range requiredResources {
				if _, ok := resources.Requests[name]; !ok && !podLevel {
					warnings = append(warnings, fmt.Sprintf("container %q requests no %s: providers that enforce reservations do not admit such a pod, and it stays Pending; set the request",
						containers[i].Name, name))
				}
			}
		}
	}
	return warnings, changed
}
