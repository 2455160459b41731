package enforcement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	nodeTypeLabel     = "liqo.io/type"
	virtualNode       = "virtual-node"
)

// LentNodes defines on which nodes pods of consumers may run.
type LentNodes struct {
	// Selector is the operator's. Virtual nodes are never lent, whatever it selects.
	Selector labels.Selector
	// ControlPlanes is true if a node of the control plane accepts ordinary pods.
	ControlPlanes bool
	// Barred are the names of nodes that accept no ordinary pods.
	Barred []string
}

// operators maps the operators of label selectors to those of node affinity.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.In: corev1.NodeSelectorOpIn, selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.NotIn: corev1.NodeSelectorOpNotIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
}

// selectorTerm returns the requirements of a lent node.
func (l *LentNodes) selectorTerm() corev1.NodeSelectorTerm {
	t := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: nodeTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{virtualNode}},
	}}
	if !l.ControlPlanes {
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: controlPlaneLabel, Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	requirements, any := l.Selector.Requirements()
	if !any { // the selector selects nothing; a contradictory expression has the same effect
		t.MatchExpressions = append(t.MatchExpressions,
			corev1.NodeSelectorRequirement{Key: nodeTypeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{virtualNode}})
	}
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		slices.Sort(values)
		t.MatchExpressions = append(t.MatchExpressions, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: values})
	}
	for _, name := range l.Barred {
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name},
		})
	}
	return t
}

// NodeSelector selects the lent nodes.
func (l *LentNodes) NodeSelector() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{l.selectorTerm()}}
}

// Confine restricts a pod to lent nodes, in addition to the pod's own requirements. It reports
// whether that changed the pod.
func (l *LentNodes) Confine(spec *corev1.PodSpec) (changed bool) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = l.NodeSelector()
		return true
	}
	lent := l.selectorTerm()
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches no node and must stay empty
		}
		changed = joinRequirements(&term.MatchExpressions, lent.MatchExpressions) || changed
		changed = joinRequirements(&term.MatchFields, lent.MatchFields) || changed
	}
	return changed
}

// joinRequirements adds the missing requirements.
func joinRequirements(to *[]corev1.NodeSelectorRequirement, more []corev1.NodeSelectorRequirement) (changed bool) {
	for _, r := range more {
		if !slices.ContainsFunc(*to, func(have corev1.NodeSelectorRequirement) bool { return equality.Semantic.DeepEqual(have, r) }) {
			*to, changed = append(*to, r), true
		}
	}
	return changed
}
