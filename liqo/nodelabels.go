package liqo

import (
	"context"
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// agentLabels returns the labels that the agent sets on a placement's virtual node. Some of them
// name the request, so that its pods can select the node. The others name the namespaces whose pods
// may use the node: the request's own namespace, and those that the request lists. A Reservation
// that was created in the broker's cluster has no request. If such a Reservation lists no
// namespaces, pods of all namespaces may use the node.
func agentLabels(inst *agentv1alpha1.ReservationInstruction) map[string]string {
	labels := map[string]string{}
	for _, namespace := range inst.Spec.Namespaces {
		labels[agentv1alpha1.NamespaceLabelPrefix+namespace] = "true"
	}
	switch ref := inst.Spec.RequestRef; {
	case ref != nil:
		maps.Copy(labels, agentv1alpha1.RequestNodeLabels(ref.Namespace, ref.Name))
		labels[agentv1alpha1.NamespaceLabelPrefix+ref.Namespace] = "true"
	case len(labels) == 0:
		labels[agentv1alpha1.SharedLabel] = "true"
	}
	return labels
}

// labelsOfAgent returns those labels of a node that agentLabels could have set.
func labelsOfAgent(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		switch key {
		case agentv1alpha1.SharedLabel, agentv1alpha1.RequestLabel, agentv1alpha1.RequestNamespaceLabel:
			out[key] = value
		default:
			if strings.HasPrefix(key, agentv1alpha1.NamespaceLabelPrefix) {
				out[key] = value
			}
		}
	}
	return out
}

// openNode sets the labels of agentLabels on the virtual node and removes outdated ones. Before the
// node has these labels, no pod that the webhook has admitted is scheduled to it, because such pods
// select these labels.
func (p consumerSide) openNode(ctx context.Context, s *consumerScene) error {
	update := s.node.DeepCopy()
	for key := range labelsOfAgent(update.Labels) {
		delete(update.Labels, key)
	}
	if update.Labels == nil {
		update.Labels = map[string]string{}
	}
	maps.Copy(update.Labels, agentLabels(s.inst))
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, client.MergeFrom(s.node)))
}
