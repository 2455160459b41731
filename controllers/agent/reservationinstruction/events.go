package reservationinstruction

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// recordTransitions records an event for each change in the end of a placement, and for a refused handshake.
// For a placement that serves a ResourceRequest, the events are recorded on the request, where
// users look.
func (r *Reconciler) recordTransitions(inst, before *agentv1alpha1.ReservationInstruction) {
	if inst.Spec.RequestRef != nil {
		return
	}
	for _, kind := range []string{agentv1alpha1.ConditionEnding, agentv1alpha1.ConditionDrained, agentv1alpha1.ConditionWithinGrant} {
		if c := message.ChangedCondition(inst.Status.Conditions, before.Status.Conditions, kind); c != nil {
			r.opts.Recorder.Eventf(inst, nil, eventType(c), c.Reason, "End", "%s", message.Clip(c.Message, message.MaxNote))
		}
	}
	for _, kind := range []string{agentv1alpha1.ConditionReady, agentv1alpha1.ConditionHealthy} {
		if c := message.ChangedCondition(inst.Status.Conditions, before.Status.Conditions, kind); c != nil && c.Reason == agentv1alpha1.ReasonHandshakeRefused {
			r.opts.Recorder.Eventf(inst, nil, corev1.EventTypeWarning, c.Reason, "Peer", "%s", message.Clip(c.Message, message.MaxNote))
			return
		}
	}
}

// eventType returns Normal for changes that were requested or that improve the state.
func eventType(c *metav1.Condition) string {
	switch c.Reason {
	case agentv1alpha1.ReasonReleased, agentv1alpha1.ReasonNoticeWithdrawn, agentv1alpha1.ReasonDraining, agentv1alpha1.ReasonDrained:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
