package reservationinstruction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// maxNote bounds the note of an event in the API.
const maxNote = 1024

// tell records an event for each turn that the end of a placement takes. One that serves
// a ResourceRequest has its events there, where people look.
func (r *Reconciler) tell(inst, before *agentv1alpha1.ReservationInstruction) {
	if inst.Spec.RequestRef != nil {
		return
	}
	for _, kind := range []string{agentv1alpha1.ConditionEnding, agentv1alpha1.ConditionDrained} {
		if c := turned(inst, before, kind); c != nil {
			r.opts.Recorder.Eventf(inst, nil, severity(c), c.Reason, "End", "%s", wire.Clip(c.Message, maxNote))
		}
	}
}

// turned returns a condition whose status or reason is not what it was.
func turned(inst, before *agentv1alpha1.ReservationInstruction, kind string) *metav1.Condition {
	now := meta.FindStatusCondition(inst.Status.Conditions, kind)
	old := meta.FindStatusCondition(before.Status.Conditions, kind)
	if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason {
		return nil
	}
	return now
}

// severity is Normal for what was asked for or is well.
func severity(c *metav1.Condition) string {
	switch c.Reason {
	case agentv1alpha1.ReasonReleased, agentv1alpha1.ReasonNoticeWithdrawn, agentv1alpha1.ReasonDraining, agentv1alpha1.ReasonDrained:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
