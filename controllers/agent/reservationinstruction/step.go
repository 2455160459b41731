package reservationinstruction

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (r *Reconciler) noteStep(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, now time.Time) {
	r.opts.Steps.Note(tracing.Span{
		Reservation: inst.Spec.ReservationName, Placement: inst.Spec.Placement, Provider: inst.Spec.TargetClusterID,
	}, stepOf(inst, state), now)
}

func stepOf(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState) string {
	switch {
	case state.Gone:
		return ""
	case inst.Ended():
		return "drain and remove"
	case state.NodeReady.True:
		return ""
	case inst.Status.Delivered:
		return "recover node"
	case state.Peered.True:
		return "set up node"
	}
	return "peer"
}
