package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// BoundPodPath is the path of the webhook for pods that name their node, and for bindings of pods
// to nodes.
const BoundPodPath = "/validate--v1-pod-node"

// SetupBoundPods registers the webhook that refuses pods and bindings that name a virtual node
// which their namespace may not use. Such pods bypass the scheduler, so affinity does not stop
// them.
func SetupBoundPods(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(BoundPodPath, &admission.Webhook{Handler: &boundPods{nodes: mgr.GetClient()}})
}

type boundPods struct{ nodes client.Reader }

// Handle implements admission.Handler. It refuses the pod if the node cannot be read.
func (b *boundPods) Handle(ctx context.Context, req admission.Request) admission.Response {
	name, err := nodeOf(&req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if name == "" {
		return admission.Allowed("")
	}
	node := &corev1.Node{}
	err = b.nodes.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Denied(fmt.Sprintf("spec.nodeName: there is no node %q", name))
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading node %q: %w", name, err))
	case !mayUse(node, req.Namespace):
		return admission.Denied(fmt.Sprintf("spec.nodeName: node %q is reserved, and not for namespace %q: make a ResourceRequest there", name, req.Namespace))
	}
	return admission.Allowed("")
}

func nodeOf(req *admission.Request) (string, error) {
	if req.SubResource == "binding" || req.Resource.Resource == "bindings" {
		binding := &corev1.Binding{}
		err := json.Unmarshal(req.Object.Raw, binding)
		return binding.Target.Name, err
	}
	pod := &corev1.Pod{}
	err := json.Unmarshal(req.Object.Raw, pod)
	return pod.Spec.NodeName, err
}

// mayUse reports whether the pods of a namespace may run on a node: the node belongs to no
// reservation, its request offloads the namespace, or all namespaces share it.
func mayUse(node *corev1.Node, namespace string) bool {
	return slices.ContainsFunc(nodePermissions(namespace), func(r corev1.NodeSelectorRequirement) bool {
		_, labelled := node.Labels[r.Key]
		return labelled == (r.Operator == corev1.NodeSelectorOpExists)
	})
}

// unreserved selects nodes that belong to no reservation.
var unreserved = corev1.NodeSelectorRequirement{Key: agentv1alpha1.ReservationLabel, Operator: corev1.NodeSelectorOpDoesNotExist}

// nodePermissions returns requirements of which a node must meet one, so that pods of the namespace may use it.
func nodePermissions(namespace string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		unreserved,
		{Key: agentv1alpha1.NamespaceLabelPrefix + namespace, Operator: corev1.NodeSelectorOpExists},
		{Key: agentv1alpha1.SharedLabel, Operator: corev1.NodeSelectorOpExists},
	}
}

// confineToNamespace adds required node affinity that keeps a pod off nodes reserved for other
// namespaces or, if mayUseReserved is false, off all reserved nodes. It reports whether it changed
// the pod. The affinity depends only on the pod and its namespace, so it also covers later
// reservations.
//
// The terms of a node affinity are alternatives. Therefore each of the pod's own terms is replaced
// by several: the term combined with one permission each.
func confineToNamespace(pod *corev1.Pod, namespace string, mayUseReserved bool) bool {
	allowed := nodePermissions(namespace)
	if !mayUseReserved {
		allowed = []corev1.NodeSelectorRequirement{unreserved}
	}
	own := requiredTerms(&pod.Spec)
	absent := pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil
	if absent {
		own = []corev1.NodeSelectorTerm{{}}
	}
	var terms []corev1.NodeSelectorTerm
	changed := absent
	for _, term := range own {
		// An empty term matches no node. Combined with a permission, it would match some.
		if !absent && isEmpty(term) || isConfined(term, allowed) {
			terms = append(terms, term)
			continue
		}
		changed = true
		for _, permission := range allowed {
			combined := *term.DeepCopy()
			combined.MatchExpressions = append(combined.MatchExpressions, permission)
			terms = append(terms, combined)
		}
	}
	if changed {
		requireNodes(&pod.Spec, terms)
	}
	return changed
}

func isEmpty(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
}

func isConfined(term corev1.NodeSelectorTerm, allowed []corev1.NodeSelectorRequirement) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
		return slices.ContainsFunc(allowed, func(p corev1.NodeSelectorRequirement) bool {
			return e.Key == p.Key && e.Operator == p.Operator
		})
	})
}

func requireNodes(spec *corev1.PodSpec, terms []corev1.NodeSelectorTerm) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
}

// pinnedElsewhere explains why a pod can never run: its node selector names a reservation whose
// nodes its namespace may not use. Otherwise it returns "". It also returns "" if the nodes do not
// exist, cannot be read, or do not have the agent's labels yet. The affinity that Handle adds still
// keeps the pod off them.
func (c *compliance) pinnedElsewhere(ctx context.Context, pod *corev1.Pod, namespace string) string {
	reservation := pod.Spec.NodeSelector[agentv1alpha1.ReservationLabel]
	if reservation == "" || strings.ContainsAny(reservation, " \t\n") {
		return ""
	}
	var nodes corev1.NodeList
	if err := c.cache.List(ctx, &nodes, client.MatchingLabels{agentv1alpha1.ReservationLabel: reservation}); err != nil || len(nodes.Items) == 0 {
		return ""
	}
	for i := range nodes.Items {
		if mayUse(&nodes.Items[i], namespace) || !isOpened(&nodes.Items[i]) {
			return ""
		}
	}
	return fmt.Sprintf("spec.nodeSelector: reservation %q is not for pods of namespace %q: make a ResourceRequest there", reservation, namespace)
}

func isOpened(node *corev1.Node) bool {
	for label := range node.Labels {
		if label == agentv1alpha1.SharedLabel || strings.HasPrefix(label, agentv1alpha1.NamespaceLabelPrefix) {
			return true
		}
	}
	return false
}
