package reservationinstruction

import (
	"context"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// vacateWindow is how long the virtual node is closed to new pods from the announced release on. If the
	// broker does not release the reservation in this time, for example because it is away, the node is
	// opened again.
	vacateWindow = time.Minute
	// vacateRetry is the delay before the agent checks again whether a closed node has pods.
	vacateRetry = 10 * time.Second
)

// untilVacating reports whether the node must be closed now because its reservation is about to be released as idle. It
// also returns the delay after which this changes, or the constant never.
func untilVacating(inst *agentv1alpha1.ReservationInstruction, now time.Time) (bool, time.Duration) {
	if inst.Spec.Idle == nil || inst.Spec.Idle.ReleaseAt == nil {
		return false, never
	}
	begin := inst.Spec.Idle.ReleaseAt.Time
	switch end := begin.Add(vacateWindow); {
	case now.Before(begin):
		return false, begin.Sub(now)
	case now.Before(end):
		return true, end.Sub(now)
	}
	return false, never
}

// vacateNode lets the broker release an idle reservation when the announced time has come: it closes the
// virtual node to new pods, and reports that the node is vacant if it has no pods then. At any other time
// it opens a node that it closed. It returns the delay after which it must run again.
func (r *Reconciler) vacateNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, now time.Time) (time.Duration, error) {
	if r.peering == nil || inst.Ended() {
		return never, nil
	}
	name, number := inst.Spec.ReservationName, inst.Spec.Placement
	closes, again := untilVacating(inst, now)
	if !closes {
		r.reports.CancelVacant(name, number)
		return again, r.peering.ReopenNode(ctx, inst)
	}
	empty, wait, err := r.peering.CloseNode(ctx, inst)
	switch {
	case err != nil:
		return never, err
	case empty:
		r.reports.ReportVacant(name, number, inst.Spec.Idle.ReleaseAt.UTC().Format(time.RFC3339))
	default:
		r.reports.CancelVacant(name, number)
		again = patch.Soonest(again, wait)
	}
	return patch.Soonest(again, vacateRetry), nil
}
