package agent

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
)

// +kubebuilder:rbac:groups=liqo.io,resources=burstpolicies,verbs=list;watch

// BurstPodPath is the path of the webhook for new pods of namespaces with BurstPolicies.
const BurstPodPath = "/mutate--v1-pod-burst"

// SetupBurstPods registers the webhook that lets the pods that a BurstPolicy selects use its
// virtual nodes. It adds their toleration and node affinity when a pod is created, because the
// affinity of a pod cannot be changed later, when it turns out that no node has room for the pod.
func SetupBurstPods(mgr ctrl.Manager) error {
	// This call makes the cache read the policies at the start, so that the first pod need not wait
	// for them.
	if _, err := mgr.GetCache().GetInformer(context.Background(), &agentv1alpha1.BurstPolicy{}, cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(BurstPodPath, &admission.Webhook{Handler: &burstPods{policies: mgr.GetClient()}})
	return nil
}

type burstPods struct{ policies client.Reader }

// Handle implements admission.Handler. A pod that it cannot prepare is admitted as it is, and stays
// in this cluster.
func (b *burstPods) Handle(ctx context.Context, req admission.Request) admission.Response {
	return patchObject(req, func(pod *corev1.Pod) (changed bool, warnings []string, _ error) {
		var policies agentv1alpha1.BurstPolicyList
		if err := b.policies.List(ctx, &policies, client.InNamespace(req.Namespace)); err != nil {
			log.FromContext(ctx).Error(err, "pod left unchanged", "namespace", req.Namespace)
			return false, []string{"the agent could not list the BurstPolicies of this namespace, so the pod stays in this cluster"}, nil
		}
		warnings, changed = prepareBurst(pod, req.Namespace, policies.Items)
		return changed, warnings, nil
	})
}

// prepareBurst lets a pod run on the nodes of this cluster and on virtual nodes of the policies
// that select it, and makes its limits and requests equal, as providers demand. It leaves pods
// unchanged that are meant for certain nodes, and those that could not run at a provider, because
// the scheduler might place them there anyway.
func prepareBurst(pod *corev1.Pod, namespace string, policies []agentv1alpha1.BurstPolicy) (warnings []string, changed bool) {
	if pod.Spec.NodeName != "" || selectsVirtualNodes(&pod.Spec) {
		return nil, false
	}
	var selecting []burst.Selection
	for i := range policies {
		p := &policies[i]
		selection := burst.Selection{Namespace: p.Namespace, Name: p.Name, Selector: p.Spec.Selector}
		if p.DeletionTimestamp == nil && selection.Selects(pod.Labels) {
			selecting = append(selecting, selection)
		}
	}
	if len(selecting) == 0 {
		return nil, false
	}
	slices.SortFunc(selecting, func(a, b burst.Selection) int { return strings.Compare(a.Name, b.Name) })
	prepared := pod.DeepCopy()
	prepared.Namespace = namespace
	admitBurstNodes(&prepared.Spec, selecting)
	tolerateVirtualNodes(&prepared.Spec)
	equalisePod(&prepared.Spec)
	if kind := burst.KindOf(prepared, selecting); kind.Skip != "" {
		return []string{"BurstPolicy " + kind.Policy + " skips the pod: " + kind.Skip.Message()}, false
	}
	pod.Spec = prepared.Spec
	return nil, true
}

// admitBurstNodes adds required node affinity for the nodes of this cluster and the virtual nodes
// of the policies. Terms are alternatives. Therefore each of the pod's own terms is replaced by
// two: the term combined with the requirements for each of these two kinds of nodes.
//
// confineToNamespace does not change the terms that result.
func admitBurstNodes(spec *corev1.PodSpec, policies []burst.Selection) {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	own := requiredTerms(spec)
	absent := len(own) == 0
	if absent {
		own = []corev1.NodeSelectorTerm{{}}
	}
	here := []corev1.NodeSelectorRequirement{unreserved, {Key: liqoTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}}}
	borrowed := []corev1.NodeSelectorRequirement{
		{Key: agentv1alpha1.BurstLabel, Operator: corev1.NodeSelectorOpIn, Values: names},
		{Key: agentv1alpha1.NamespaceLabelPrefix + policies[0].Namespace, Operator: corev1.NodeSelectorOpExists},
	}
	var terms []corev1.NodeSelectorTerm
	for _, term := range own {
		if isEmpty(term) && !absent {
			terms = append(terms, term) // an empty term matches no node; combined with a requirement, it would match some
			continue
		}
		for _, nodes := range [][]corev1.NodeSelectorRequirement{here, borrowed} {
			combined := *term.DeepCopy()
			combined.MatchExpressions = append(combined.MatchExpressions, nodes...)
			terms = append(terms, combined)
		}
	}
	requireNodes(spec, terms)
}
