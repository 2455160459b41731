package providerinstruction

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placeholder"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// A placement for which nodes must be created has placeholder pods as large as these nodes, so that the
// cluster's autoscaler creates them. Once all of them have a node, the placement is decided about again.
// If it is accepted then, placeholders of the usual sizes replace them on the same nodes.

// newNodesRetry is the delay before a placement whose new nodes exist is decided about again, because
// they may not be Ready yet.
const newNodesRetry = 5 * time.Second

// addNewNodes writes into the status which nodes must be created, besides those that it names already.
func addNewNodes(inst *agentv1alpha1.ProviderInstruction, more *agentv1alpha1.NewNodes) {
	now := *more
	if known := inst.Status.NewNodes; known != nil && known.Group == more.Group {
		now.Count += known.Count
	}
	inst.Status.NewNodes, inst.Status.Granted, inst.Status.Phase = &now, inst.Spec.Resources.DeepCopy(), agentv1alpha1.InstructionProvisioning
}

// awaitsNewNodes reports whether nodes that are created for a placement are still missing.
func (r *Reconciler) awaitsNewNodes(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (bool, error) {
	if inst.Status.NewNodes == nil || r.opts.Placeholders == nil {
		return false, nil
	}
	var pods corev1.PodList
	err := r.opts.Placeholders.Pods.List(ctx, &pods, client.InNamespace(r.opts.Placeholders.Namespace), client.MatchingLabels{agentv1alpha1.PlaceholderLabel: inst.Name})
	if err != nil {
		return false, fmt.Errorf("list placeholder pods: %w", err)
	}
	var nodes []string
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			nodes = append(nodes, pods.Items[i].Spec.NodeName)
		}
	}
	room, there := r.opts.Placeholders.Room(nodes), int32(0)
	for _, node := range nodes {
		if _, counts := room[node]; counts { // Admit would create a node that it does not count once more
			there++
		}
	}
	return there < inst.Status.NewNodes.Count, nil
}

// describeNewNodes returns the state of a placement for which nodes are created.
func describeNewNodes(inst *agentv1alpha1.ProviderInstruction) plan.ProviderState {
	n := inst.Status.NewNodes
	text := fmt.Sprintf("waiting for %d new nodes of group %q, which placeholder pods request from the cluster's autoscaler", n.Count, n.Group)
	if n.Count == 0 {
		text = fmt.Sprintf("waiting for new nodes of group %q, which are created for other placements", n.Group)
	}
	return plan.ProviderState{
		Phase: agentv1alpha1.InstructionProvisioning, Again: newNodesRetry,
		Granted: placement.Aspect{Reason: agentv1alpha1.ReasonProvisioning, Message: text},
	}
}

// reserveNewNodes adds the placeholders of new nodes to the input of a plan.
func (p *Placeholders) reserveNewNodes(view *placeholder.View, inst *agentv1alpha1.ProviderInstruction) {
	view.Reserved[inst.Name] = quantity.Amounts{}
	for _, g := range p.Groups() {
		if n := inst.Status.NewNodes; n.Group == g.Name {
			view.Reserved[inst.Name], view.Parts[inst.Name] = g.Each.Times(int64(n.Count)), slices.Repeat([]quantity.Amounts{g.Each}, int(n.Count))
		}
	}
}

// confineToGroup lets a placeholder of a new node run only on nodes of its group.
func (p *Placeholders) confineToGroup(pod *corev1.PodSpec, name string) {
	for _, g := range p.Groups() {
		if g.Name == name {
			pod.NodeSelector = g.Labels
			for _, t := range g.Taints {
				pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(t.Effect)})
			}
		}
	}
}
