package reservationinstruction

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// Reach probes whether this cluster reaches the provider of a placement.
type Reach interface {
	// Check returns why the provider is unreachable, or "" if it is reachable. known is false
	// until a probe has finished.
	Check(placement, endpoint string) (why string, known bool)
	Forget(placement string)
	// Checked carries the names of placements with new results.
	Checked() <-chan event.TypedGenericEvent[string]
}

var _ Reach = (*reach.Scout)(nil)

// unreachedReason returns why the provider of a placement is unreachable, or "" if there is no sign
// of that. known is false until a probe has finished. It only checks placements whose node was never Ready. The handshake continues
// meanwhile, because it needs only the broker. A placement that was Ready once is not given up
// for this: Liqo may recover before the broker finds another provider.
func (r *Reconciler) unreachedReason(inst *agentv1alpha1.ReservationInstruction, ready bool) (why string, known bool) {
	if inst.Spec.TargetClusterEndpoint == "" || inst.Status.Delivered || ready {
		r.opts.Reach.Forget(inst.Name)
		return "", true
	}
	return r.opts.Reach.Check(inst.Name, inst.Spec.TargetClusterEndpoint)
}
