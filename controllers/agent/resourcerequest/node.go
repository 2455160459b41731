package resourcerequest

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// shownLabels are the labels of a virtual node that the status shows, besides those that name the
// request.
var shownLabels = []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, agentv1alpha1.ReservationLabel}

// showNode writes the labels of the virtual node into the status, because users of a namespace may
// not read nodes. It needs no watch of nodes: the labels are set before the node becomes Ready and
// do not change afterwards.
func (r *Reconciler) showNode(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	rr.Status.NodeLabels = nil
	if rr.Status.NodeName == "" {
		return nil
	}
	var node corev1.Node
	err := r.client.Get(ctx, client.ObjectKey{Name: rr.Status.NodeName}, &node)
	if err == nil {
		rr.Status.NodeLabels = selectableLabels(rr, node.Labels)
	} else if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read virtual node %q: %w", rr.Status.NodeName, err)
	}
	return nil
}

func selectableLabels(rr *agentv1alpha1.ResourceRequest, ofNode map[string]string) map[string]string {
	labels := maps.Clone(agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name))
	for _, key := range shownLabels {
		if value, ok := ofNode[key]; ok {
			labels[key] = value
		}
	}
	return labels
}
