package providerinstruction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placeholder"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// A placement for which nodes must be created has placeholder pods as large as these nodes, so that the
// cluster's autoscaler creates them. Once all of them have a node, the placement is decided about again.
// If it is accepted then, placeholders of the usual sizes replace them on the same nodes.

// newNodesRetry is the delay before a placement that awaits new nodes is decided about again. Nodes may
// become Ready, or capacity free, without an event that concerns the placement.
const newNodesRetry = 5 * time.Second

// addNewNodes adds nodes to those that are created for a placement. It leaves out groups that are no longer
// configured.
func (r *Reconciler) addNewNodes(known, more []agentv1alpha1.NewNodes) (sum []agentv1alpha1.NewNodes) {
	for _, n := range slices.Concat(known, more) {
		if at := slices.IndexFunc(sum, func(s agentv1alpha1.NewNodes) bool { return s.Group == n.Group }); at >= 0 {
			sum[at].Count += n.Count
		} else if r.opts.Placeholders == nil || r.opts.Placeholders.findGroup(n.Group) != nil {
			sum = append(sum, n)
		}
	}
	return sum
}

// awaitsNewNodes reports whether nodes that are created for a placement are still missing. It returns false
// if a group is no longer configured, so that the placement is decided about without it.
func (r *Reconciler) awaitsNewNodes(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (bool, error) {
	p := r.opts.Placeholders
	if !inst.AwaitsNewNodes() || p == nil {
		return false, nil
	}
	missing := 0
	for _, n := range inst.Status.NewNodes {
		if p.findGroup(n.Group) == nil {
			return false, nil
		}
		missing += int(n.Count)
	}
	var pods corev1.PodList
	err := p.Pods.List(ctx, &pods, client.InNamespace(p.Namespace), client.MatchingLabels{agentv1alpha1.PlaceholderLabel: inst.Name})
	if err != nil {
		return false, fmt.Errorf("list placeholder pods: %w", err)
	}
	var nodes []string
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			nodes = append(nodes, pods.Items[i].Spec.NodeName)
		}
	}
	room := p.Room(nodes)
	for _, node := range nodes {
		if _, counts := room[node]; counts { // Admit would create a node that it does not count once more
			missing--
		}
	}
	return missing > 0, nil
}

// describeNewNodes returns the state of a placement for which nodes are created.
func describeNewNodes(inst *agentv1alpha1.ProviderInstruction) plan.ProviderState {
	var words []string
	for _, n := range inst.Status.NewNodes {
		if n.Count == 0 {
			words = append(words, fmt.Sprintf("those of group %q for other placements", n.Group))
		} else {
			words = append(words, fmt.Sprintf("%d of group %q", n.Count, n.Group))
		}
	}
	return plan.ProviderState{
		Phase: agentv1alpha1.InstructionProvisioning, Again: newNodesRetry,
		Granted: placement.Aspect{
			Reason: agentv1alpha1.ReasonProvisioning, Message: "waiting for new nodes, which placeholder pods request from the cluster's autoscaler: " + strings.Join(words, " and "),
		},
	}
}

// findGroup returns the configured group of a name, nil if there is none.
func (p *Placeholders) findGroup(name string) *offering.NodeGroup {
	groups := p.Groups()
	if at := slices.IndexFunc(groups, func(g offering.NodeGroup) bool { return g.Name == name }); at >= 0 {
		return &groups[at]
	}
	return nil
}

// reserveNewNodes adds the placeholders of new nodes to the input of a plan.
func (p *Placeholders) reserveNewNodes(view *placeholder.View, inst *agentv1alpha1.ProviderInstruction) {
	sum, parts := quantity.Amounts{}, []quantity.Amounts{}
	for _, n := range inst.Status.NewNodes {
		if g := p.findGroup(n.Group); g != nil {
			sum, parts = sum.Add(g.Each.Times(int64(n.Count))), append(parts, slices.Repeat([]quantity.Amounts{placeholder.Keepable(g.Each)}, int(n.Count))...)
		}
	}
	view.Reserved[inst.Name], view.Parts[inst.Name] = sum, parts
}

// confineToGroups lets a placeholder of a new node run only on nodes of those groups of the placement whose
// nodes have its size.
func (p *Placeholders) confineToGroups(pod *corev1.PodSpec, h placeholder.Placeholder, all []agentv1alpha1.NewNodes) {
	var terms []corev1.NodeSelectorTerm
	for _, n := range all {
		g := p.findGroup(n.Group)
		if g == nil || !placeholder.Keepable(g.Each).Equal(h.Amounts) {
			continue
		}
		var term corev1.NodeSelectorTerm
		for key, value := range g.Labels {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
		}
		terms = append(terms, term)
		for _, t := range g.Taints {
			pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(t.Effect)})
		}
	}
	pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}
