package enforcement

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	nodeTypeLabel     = "liqo.io/type"
	virtualNode       = "virtual-node"
)

// LentNodes describes the nodes on which pods of consumers may run.
type LentNodes struct {
	// Selector is the operator's selector of the nodes to lend. Virtual nodes are never lent, even
	// if it selects them.
	Selector labels.Selector
	// ControlPlanes is true if control-plane nodes may be used. That is so if at least one of them
	// accepts ordinary pods.
	ControlPlanes bool
	// Barred are the names of nodes that may not be used because of their taints.
	Barred []string
	// Labels are the labels that a node must have to run pods of the placement; nil if the placement
	// may use any lent node.
	Labels map[string]string
	// Taints are the taints that the operator offers. Tolerations are those that the placement was
	// granted.
	Taints      []brokerv1alpha1.Taint
	Tolerations []brokerv1alpha1.Toleration
	// Devices are the tolerations of the devices that the placement was granted.
	Devices []brokerv1alpha1.Toleration
}

// For returns l, restricted to the nodes that pods of one placement may use.
func (l LentNodes) For(spec *agentv1alpha1.ProviderInstructionSpec) LentNodes {
	l.Labels, l.Tolerations = wire.FromLabels(spec.NodeSelector), spec.Tolerations
	amounts, _ := quantity.FromResourceList(spec.Resources) // a placement with wrong amounts is never acknowledged
	l.Devices = requirements.WithDevices(nil, amounts)
	return l
}

// requireLabels returns a node requirement for each of the labels, sorted by key.
func requireLabels(labels map[string]string) (out []corev1.NodeSelectorRequirement) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]}})
	}
	return out
}

// IsBound reports whether the pod's required node affinity restricts it to nodes with all of these
// labels. It returns true if there are no labels.
func IsBound(spec *corev1.PodSpec, labels map[string]string) bool {
	bound := spec.DeepCopy()
	return len(labels) == 0 || !joinTerms(bound, corev1.NodeSelectorTerm{MatchExpressions: requireLabels(labels)})
}

// operators maps the operators of label selectors to the operators of node affinity.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.In: corev1.NodeSelectorOpIn, selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.NotIn: corev1.NodeSelectorOpNotIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
}

// selectorTerm returns a node selector term that matches exactly the lent nodes.
func (l *LentNodes) selectorTerm() corev1.NodeSelectorTerm {
	t := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: nodeTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{virtualNode}},
	}}
	if !l.ControlPlanes {
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: controlPlaneLabel, Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	requirements, any := l.Selector.Requirements()
	if !any { // the selector matches no node: add a requirement that contradicts the first one
		t.MatchExpressions = append(t.MatchExpressions,
			corev1.NodeSelectorRequirement{Key: nodeTypeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{virtualNode}})
	}
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		slices.Sort(values)
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: values})
	}
	t.MatchExpressions = append(t.MatchExpressions, requireLabels(l.Labels)...)
	for _, name := range l.Barred {
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name},
		})
	}
	return t
}

// Confine restricts a pod to these nodes, in addition to the pod's own requirements. It removes
// tolerations that the placement was not granted, and adds those that it was granted. It reports
// whether it changed the pod.
func (l *LentNodes) Confine(spec *corev1.PodSpec) (changed bool) {
	changed = joinTerms(spec, l.selectorTerm())
	before, granted := len(spec.Tolerations), l.grantedTolerations()
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool { return isStrange(spec, &t, granted) })
	changed = changed || len(spec.Tolerations) != before
	for _, t := range granted {
		if !containsToleration(spec.Tolerations, &t) {
			spec.Tolerations, changed = append(spec.Tolerations, t), true
		}
	}
	return changed
}

// StrangeToleration returns the key of one of the pod's tolerations that its placement was not
// granted, or "every taint" if that toleration has no key. It returns "" if there is no such
// toleration.
func (l *LentNodes) StrangeToleration(spec *corev1.PodSpec) string {
	granted := l.grantedTolerations()
	for i := range spec.Tolerations {
		if t := &spec.Tolerations[i]; isStrange(spec, t, granted) {
			return cmp.Or(t.Key, "every taint")
		}
	}
	return ""
}

func (l *LentNodes) grantedTolerations() []corev1.Toleration {
	granted := requirements.TolerationsFor(l.Tolerations, l.Taints)
	for _, d := range l.Devices {
		granted = append(granted, corev1.Toleration{Key: d.Key, Operator: corev1.TolerationOpExists})
	}
	return granted
}

// isStrange reports whether a pod may not have a toleration, because its placement was not granted
// it. Two kinds of tolerations are always allowed: those whose key is the name of a device that the
// pod requests, and those with a reserved key, which the admission policy checks.
func isStrange(spec *corev1.PodSpec, t *corev1.Toleration, granted []corev1.Toleration) bool {
	switch {
	case t.Key != "" && requirements.IsReservedTaint(t.Key), requestsDevice(spec, t.Key):
		return false
	}
	return !containsToleration(granted, t)
}

func containsToleration(all []corev1.Toleration, t *corev1.Toleration) bool {
	return slices.ContainsFunc(all, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, *t) })
}

func requestsDevice(spec *corev1.PodSpec, key string) bool {
	requests := func(c corev1.Container) bool {
		amount := c.Resources.Requests[corev1.ResourceName(key)]
		return amount.Sign() > 0
	}
	return quantity.IsExtended(corev1.ResourceName(key)) && (slices.ContainsFunc(spec.Containers, requests) || slices.ContainsFunc(spec.InitContainers, requests))
}

// joinTerms adds the requirements of a term to each of a pod's required node affinity terms. If the
// pod has none, the term becomes its only one. It reports whether it changed the pod.
func joinTerms(spec *corev1.PodSpec, more corev1.NodeSelectorTerm) (changed bool) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{more}}
		return true
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches no node; with requirements it would match some
		}
		changed = joinRequirements(&term.MatchExpressions, more.MatchExpressions) || changed
		changed = joinRequirements(&term.MatchFields, more.MatchFields) || changed
	}
	return changed
}

// joinRequirements appends to the first list the requirements that only the second list contains.
// It reports whether it appended any.
func joinRequirements(to *[]corev1.NodeSelectorRequirement, more []corev1.NodeSelectorRequirement) (changed bool) {
	for _, r := range more {
		if !slices.ContainsFunc(*to, func(have corev1.NodeSelectorRequirement) bool { return equality.Semantic.DeepEqual(have, r) }) {
			*to, changed = append(*to, r), true
		}
	}
	return changed
}
