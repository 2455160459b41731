package agent

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// DaemonSetPath is the path of the webhook for DaemonSets that tolerate every taint.
const DaemonSetPath = "/mutate-apps-v1-daemonset"

// virtualNodeType is the value of Liqo's type label on virtual nodes.
const virtualNodeType = "virtual-node"

// SetupDaemonSets registers the webhook that keeps DaemonSets of node agents off virtual nodes.
// Their pods cannot run there. A pod that does not become ready counts as unavailable, so that a
// rolling update with maxUnavailable 1 would never reach a real node. Affinity on the pods does not
// help: the DaemonSet's controller chooses nodes by the template.
func SetupDaemonSets(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(DaemonSetPath, &admission.Webhook{Handler: admission.HandlerFunc(keepDaemonSetOff)})
}

func keepDaemonSetOff(_ context.Context, req admission.Request) admission.Response {
	return patchObject(req, func(ds *appsv1.DaemonSet) (bool, []string, error) {
		if !avoidVirtualNodes(&ds.Spec.Template.Spec) {
			return false, nil, nil
		}
		return true, []string{fmt.Sprintf(
			"spec.template.spec: the pods tolerate every taint, so the agent keeps them off Liqo's virtual nodes with the node affinity %s NotIn [%s]", liqoTypeLabel, virtualNodeType)}, nil
	})
}

// MayUseVirtualNodes reports whether the controller of a DaemonSet creates pods on virtual nodes
// although the author did not choose these nodes.
func MayUseVirtualNodes(ds *appsv1.DaemonSet) bool {
	return avoidVirtualNodes(ds.Spec.Template.Spec.DeepCopy())
}

// avoidVirtualNodes adds required node affinity that excludes virtual nodes to the pods of a
// DaemonSet that tolerate every taint. It reports whether it changed anything. It changes nothing
// if the pods select virtual nodes.
func avoidVirtualNodes(spec *corev1.PodSpec) (changed bool) {
	if !toleratesEveryTaint(spec) || selectsVirtualNodes(spec) {
		return false
	}
	terms := requiredTerms(spec)
	if slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return demandsLabel(t, func(key string) bool { return key == liqoTypeLabel || key == liqoClusterLabel })
	}) {
		return false
	}
	avoid := corev1.NodeSelectorRequirement{Key: liqoTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{virtualNodeType}}
	if len(terms) == 0 {
		requireNodes(spec, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{avoid}}})
		return true
	}
	for i := range terms {
		// An empty term matches no node.
		if !isEmpty(terms[i]) && !excludesVirtualNodes(terms[i]) {
			terms[i].MatchExpressions = append(terms[i].MatchExpressions, avoid)
			changed = true
		}
	}
	return changed
}

// toleratesEveryTaint reports whether a toleration without a key covers the taint of virtual nodes,
// which has the effect NoExecute. A toleration that names the taint is its author's choice.
func toleratesEveryTaint(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == "" && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
	})
}

func excludesVirtualNodes(term corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
		return e.Key == liqoTypeLabel && (e.Operator == corev1.NodeSelectorOpDoesNotExist ||
			e.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(e.Values, virtualNodeType))
	})
}
