package reservationinstruction

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

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
