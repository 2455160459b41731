package reservationinstruction

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// tell records an event for each turn that the end of a placement takes. One that serves
// a ResourceRequest has its events there, where people look.
func (r *Reconciler) tell(inst, before *agentv1alpha1.ReservationInstruction) {
	if inst.Spec.RequestRef != nil {
		return
	}
	for _, kind := range []string{agentv1alpha1.ConditionEnding, agentv1alpha1.ConditionDrained, agentv1alpha1.ConditionWithinGrant} {
		if c := message.ChangedCondition(inst.Status.Conditions, before.Status.Conditions, kind); c != nil {
			r.opts.Recorder.Eventf(inst, nil, severity(c), c.Reason, "End", "%s", message.Clip(c.Message, message.MaxNote))
		}
	}
	for _, kind := range []string{agentv1alpha1.ConditionReady, agentv1alpha1.ConditionHealthy} {
		if c := message.ChangedCondition(inst.Status.Conditions, before.Status.Conditions, kind); c != nil && c.Reason == agentv1alpha1.ReasonHandshakeRefused {
			r.opts.Recorder.Eventf(inst, nil, corev1.EventTypeWarning, c.Reason, "Peer", "%s", message.Clip(c.Message, message.MaxNote))
			return
		}
	}
}

// severity is Normal for what was asked for or is well.
func severity(c *metav1.Condition) string {
	switch c.Reason {
	case agentv1alpha1.ReasonReleased, agentv1alpha1.ReasonNoticeWithdrawn, agentv1alpha1.ReasonDraining, agentv1alpha1.ReasonDrained:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
