package agent

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Liqo's labels and taint of virtual nodes, spelled out because only the liqo packages depend on
// Liqo.
const (
	liqoTypeLabel    = "liqo.io/type"
	liqoClusterLabel = "liqo.io/remote-cluster-id"
	virtualNodeTaint = "virtual-node.liqo.io/not-allowed"
)

// selectsRequest reports whether a pod selects virtual nodes by their request or reservation. The
// webhook configuration calls the agent by the same rule.
func selectsRequest(spec *corev1.PodSpec) bool {
	names := func(key string) bool {
		return key == agentv1alpha1.RequestLabel || key == agentv1alpha1.ReservationLabel
	}
	return selectsByLabel(spec, names) || slices.ContainsFunc(requiredTerms(spec), func(t corev1.NodeSelectorTerm) bool {
		return demandsLabel(t, names)
	})
}

// selectsVirtualNodes reports whether a pod selects virtual nodes, by any of their labels or by
// name. It ignores Liqo's labels in affinities, because Liqo's own webhook adds these.
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

// qualifyRequests adds the pod's namespace wherever the pod selects a request by its name alone.
// Otherwise a request of the same name in another namespace, which may offload this one too, would
// attract the pod.
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

// tolerateVirtualNodes adds the toleration that Liqo's webhook adds to pods of namespaces that it
// offloads. A pod that waits for its request needs it from the beginning: it cannot be added
// later.
func tolerateVirtualNodes(spec *corev1.PodSpec) bool {
	if slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		key := t.Key == virtualNodeTaint || t.Key == "" && t.Operator == corev1.TolerationOpExists
		value := t.Operator == corev1.TolerationOpExists || t.Value == "true"
		return key && value && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute) && t.TolerationSeconds == nil
	}) {
		return false
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: virtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
	})
	return true
}

// leavesPinnedPods reports whether the request that a pod selects has podCompliance None.
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

// selectsValue reports whether a pod selects nodes by a label with the value in labels.
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

// equalisePod gives all containers limits equal to their requests. It warns about containers for
// which it cannot.
func equalisePod(spec *corev1.PodSpec) (warnings []string, changed bool) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			changed = equaliseResources(resources) || changed
			for _, name := range requiredResources {
				if _, ok := resources.Requests[name]; !ok {
					warnings = append(warnings, fmt.Sprintf("container %q requests no %s: providers that enforce reservations do not admit such a pod, and it stays Pending; set the request",
						containers[i].Name, name))
				}
			}
		}
	}
	return warnings, changed
}
