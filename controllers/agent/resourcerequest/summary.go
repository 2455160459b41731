package resourcerequest

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// urgent lists conditions that users must see even if the request is Ready, each with the
// status that makes it urgent. The most urgent one comes first.
var urgent = []struct {
	kind   string
	status metav1.ConditionStatus
}{
	{agentv1alpha1.ConditionPreempted, metav1.ConditionTrue},
	{agentv1alpha1.ConditionRecalled, metav1.ConditionTrue},
	{agentv1alpha1.ConditionEnding, metav1.ConditionTrue},
	{agentv1alpha1.ConditionProviderReachable, metav1.ConditionFalse},
	{agentv1alpha1.ConditionHealthy, metav1.ConditionFalse},
	{agentv1alpha1.ConditionWithinGrant, metav1.ConditionFalse},
	{agentv1alpha1.ConditionIdle, metav1.ConditionTrue},
	{agentv1alpha1.ConditionChanged, metav1.ConditionFalse},
	{agentv1alpha1.ConditionChanged, metav1.ConditionUnknown},
}

// setSummary writes status.reason and status.message. They combine Ready with the most urgent
// other condition, or describe the drain of a request that is being released.
func (e editor) setSummary() {
	s := &e.rr.Status
	ready := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReady)
	if ready == nil {
		return
	}
	reason, text := ready.Reason, ready.Message
	switch s.Phase {
	case agentv1alpha1.RequestReserved, agentv1alpha1.RequestActive:
		if c := e.findUrgent(); c != nil {
			if ready.Status == metav1.ConditionTrue {
				reason, text = c.Reason, "Ready"
			}
			text += "; " + c.Message
		}
	case agentv1alpha1.RequestReleasing:
		if c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionDrained); c != nil && c.Status == metav1.ConditionFalse {
			reason, text = c.Reason, c.Message
		}
	}
	s.Reason, s.Message = reason, message.Clip(text, message.MaxStatus)
}

func (e editor) findUrgent() *metav1.Condition {
	for _, u := range urgent {
		if c := meta.FindStatusCondition(e.rr.Status.Conditions, u.kind); c != nil && c.Status == u.status {
			return c
		}
	}
	return nil
}

func (e editor) setGranted(current *agentv1alpha1.ReservationInstruction) {
	s := &e.rr.Status
	if !isStanding(current) || s.Phase != agentv1alpha1.RequestReserved && s.Phase != agentv1alpha1.RequestActive {
		return
	}
	s.Granted = &brokerv1alpha1.Granted{Resources: current.Spec.Resources, Until: current.Spec.ExpiresAt}
	if n := current.Spec.Notice; n != nil && (s.Granted.Until == nil || n.EndsAt.Before(s.Granted.Until)) {
		s.Granted.Until = &n.EndsAt
	}
}

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
