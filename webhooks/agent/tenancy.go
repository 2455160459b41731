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

// BoundPodPath is the path of the webhook for pods that name their node.
const BoundPodPath = "/validate--v1-pod-node"

// SetupBoundPods registers the webhook that refuses pods and bindings that name the virtual
// node of a reservation their namespace may not use. They bypass the scheduler, so affinity
// does not stop them.
func SetupBoundPods(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(BoundPodPath, &admission.Webhook{Handler: &boundPods{nodes: mgr.GetClient()}})
}

type boundPods struct{ nodes client.Reader }

// Handle implements admission.Handler. It refuses the pod when the lookup fails.
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

// nodeOf returns the node that a new Pod or a Binding names.
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

// mayUse reports whether pods of a namespace may run on a node: the node belongs to no
// reservation, or to one of a request that names the namespace.
func mayUse(node *corev1.Node, namespace string) bool {
	return slices.ContainsFunc(nodePermissions(namespace), func(r corev1.NodeSelectorRequirement) bool {
		_, labelled := node.Labels[r.Key]
		return labelled == (r.Operator == corev1.NodeSelectorOpExists)
	})
}

// unreserved selects nodes that belong to no reservation.
var unreserved = corev1.NodeSelectorRequirement{Key: agentv1alpha1.ReservationLabel, Operator: corev1.NodeSelectorOpDoesNotExist}

// nodePermissions returns the alternatives by which a node is open to pods of a namespace. A
// node must meet one of them.
func nodePermissions(namespace string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		unreserved,
		{Key: agentv1alpha1.NamespaceLabelPrefix + namespace, Operator: corev1.NodeSelectorOpExists},
		{Key: agentv1alpha1.SharedLabel, Operator: corev1.NodeSelectorOpExists},
	}
}

// confineToNamespace adds required node affinity that keeps a pod off nodes reserved for other
// namespaces, and reports whether it changed anything. The affinity depends only on the pod and
// its namespace, so it also covers later reservations. Without mayUseReserved it keeps the pod off
// all reserved nodes.
//
// The terms of an affinity are alternatives. Each of the pod's own terms is combined with each
// permission.
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
		// An empty term of the pod itself matches no node, and must not match any afterwards.
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

// pinnedElsewhere returns why a pod can never run: it is pinned to a reservation whose nodes
// its namespace may not use. It returns "" if there is no such node or the lookup fails; then
// the affinity keeps the pod away.
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

// isOpened reports whether the agent has set which namespaces may use a node.
func isOpened(node *corev1.Node) bool {
	for label := range node.Labels {
		if label == agentv1alpha1.SharedLabel || strings.HasPrefix(label, agentv1alpha1.NamespaceLabelPrefix) {
			return true
		}
	}
	return false
}
