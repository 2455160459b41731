package reservationinstruction

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// Reach probes whether this cluster reaches the API server of a placement's provider.
type Reach interface {
	// Check returns why the provider at this endpoint is unreachable, or "" if it is reachable.
	// known is false until a probe has finished.
	Check(placement, endpoint string) (why string, known bool)
	Forget(placement string)
	// Checked returns a channel of the names of placements whose probe has a new result.
	Checked() <-chan event.TypedGenericEvent[string]
}

var _ Reach = (*reach.Scout)(nil)

// unreachedReason returns why the provider of a placement is unreachable, or "" if it is not known
// to be unreachable. known is false until a probe has finished.
//
// A placement is probed only until its node has been Ready for the first time. The handshake does
// not show that the provider is unreachable, because its messages pass through the broker. Later,
// an unreachable provider is no reason to give up the placement: Liqo may reconnect before the
// broker has found another provider.
func (r *Reconciler) unreachedReason(inst *agentv1alpha1.ReservationInstruction, ready bool) (why string, known bool) {
	if inst.Spec.TargetClusterEndpoint == "" || inst.Status.Delivered || ready {
		r.opts.Reach.Forget(inst.Name)
		return "", true
	}
	return r.opts.Reach.Check(inst.Name, inst.Spec.TargetClusterEndpoint)
}
