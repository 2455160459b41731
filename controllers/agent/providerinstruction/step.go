package providerinstruction

import (
	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// noteStep tells the trace of a reservation which step its placement is in at this cluster. state is
// empty before this cluster has decided about the placement.
func (r *Reconciler) noteStep(inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) {
	r.opts.Steps.Note(tracing.Span{
		Reservation: inst.Spec.ReservationName, Placement: inst.Spec.Placement, Requester: inst.Spec.RequesterClusterID,
	}, stepOf(inst, state), r.now())
}

func stepOf(inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) string {
	switch {
	case state.Gone:
		return ""
	case inst.Ended():
		return "clean up"
	case inst.AwaitsNewNodes():
		return "create nodes"
	case !inst.IsDecided():
		return "decide"
	case isRefused(inst) || state.Granted.True:
		return ""
	}
	return "await slice"
}
