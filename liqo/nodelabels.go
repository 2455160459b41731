package liqo

import (
	"context"
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// usableBy returns the labels that name the namespaces whose pods may use a placement's virtual
// node: the namespace of its request, and the namespaces that the request names. Without a
// request or namespaces, as for a Reservation made in the broker's cluster, all may use it.
func usableBy(inst *agentv1alpha1.ReservationInstruction) map[string]string {
	labels := map[string]string{}
	for _, namespace := range inst.Spec.Namespaces {
		labels[agentv1alpha1.NamespaceLabelPrefix+namespace] = "true"
	}
	switch ref := inst.Spec.RequestRef; {
	case ref != nil:
		labels[agentv1alpha1.NamespaceLabelPrefix+ref.Namespace] = "true"
	case len(labels) == 0:
		labels[agentv1alpha1.SharedLabel] = "true"
	}
	return labels
}

// tenancyLabels returns the node's labels that name the namespaces whose pods may use it.
func tenancyLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if key == agentv1alpha1.SharedLabel || strings.HasPrefix(key, agentv1alpha1.NamespaceLabelPrefix) {
			out[key] = value
		}
	}
	return out
}

// openNode labels the virtual node with the namespaces that may use it. Before that, no pod
// that passed the webhook is scheduled there.
func (p consumerSide) openNode(ctx context.Context, s *consumerScene) error {
	update := s.node.DeepCopy()
	for key := range tenancyLabels(update.Labels) {
		delete(update.Labels, key)
	}
	if update.Labels == nil {
		update.Labels = map[string]string{}
	}
	maps.Copy(update.Labels, usableBy(s.inst))
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, client.MergeFrom(s.node)))
}
