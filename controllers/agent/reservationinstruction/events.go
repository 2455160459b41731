package reservationinstruction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// recordTransitions records events on an instruction: when its end is announced or progresses, when its pods exceed the
// grant, and when this cluster refuses what the provider sent for the peering or a receipt of the broker. If the
// instruction serves a ResourceRequest, it records only the events about receipts, because the controller of
// ResourceRequests records the others on the request, which users look at.
func (r *Reconciler) recordTransitions(inst, before *agentv1alpha1.ReservationInstruction) {
	instruction.RecordReceipt(r.opts.Recorder, inst, inst.Status.Conditions, before.Status.Conditions)
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

// recordConcerned records the message of condition Healthy as an event on the pod or Service that it names, when the
// message is new: users look at their pod first. concerned is nil if the condition names none.
func (r *Reconciler) recordConcerned(inst, before *agentv1alpha1.ReservationInstruction, concerned *corev1.ObjectReference) {
	c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionHealthy)
	old := meta.FindStatusCondition(before.Status.Conditions, agentv1alpha1.ConditionHealthy)
	if concerned == nil || c == nil || old != nil && old.Message == c.Message {
		return
	}
	r.opts.Recorder.Eventf(concerned, nil, corev1.EventTypeWarning, c.Reason, "Offload", "%s", message.Clip(c.Message, message.MaxNote))
}

// eventType returns Normal for a release, a drain without problems and a withdrawn notice.
func eventType(c *metav1.Condition) string {
	switch c.Reason {
	case agentv1alpha1.ReasonReleased, agentv1alpha1.ReasonNoticeWithdrawn, agentv1alpha1.ReasonDraining, agentv1alpha1.ReasonDrained:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// DrainResult says how the drain of a virtual node ended.
type DrainResult string

// Results of drains.
const (
	// DrainEvicted means that all pods had left the node before the deadline.
	DrainEvicted DrainResult = "evicted"
	// DrainDeleted means that pods were deleted after the deadline, and have left the node.
	DrainDeleted DrainResult = "deleted"
	// DrainLeft means that pods were left on the node when it was removed.
	DrainLeft DrainResult = "left"
)

// DrainResults lists all results of a drain.
var DrainResults = []DrainResult{DrainEvicted, DrainDeleted, DrainLeft}

// observeDrain passes the result and the duration of a drain to ObserveDrain, if the drain has
// ended in inst but not yet in before, the earlier state of inst. It leaves out placements whose
// drain never began because the provider was given up.
func (r *Reconciler) observeDrain(inst, before *agentv1alpha1.ReservationInstruction, now time.Time) {
	ended := message.ChangedCondition(inst.Status.Conditions, before.Status.Conditions, agentv1alpha1.ConditionDrained)
	drain := inst.Status.Drain
	if r.opts.ObserveDrain == nil || drain == nil || ended == nil || r.drained[inst.Name] {
		return
	}
	result := DrainEvicted
	switch {
	case ended.Reason == agentv1alpha1.ReasonDrainedPartly:
		result = DrainLeft
	case ended.Reason != agentv1alpha1.ReasonDrained:
		return
	case !now.Before(drain.Deadline.Time):
		result = DrainDeleted
	}
	r.drained[inst.Name] = true
	r.opts.ObserveDrain(result, max(now.Sub(drain.StartedAt.Time), 0))
}
