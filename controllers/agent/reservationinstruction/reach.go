package reservationinstruction

import (
	"sigs.k8s.io/controller-runtime/pkg/event"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// Reach finds out whether this cluster reaches the provider of a placement.
type Reach interface {
	// Check says why it does not, "" if it does, once that is known.
	Check(placement, endpoint string) (why string, known bool)
	Forget(placement string)
	// Checked carries the names of placements of which more is known.
	Checked() <-chan event.TypedGenericEvent[string]
}

var _ Reach = (*reach.Scout)(nil)

// unreached is why the provider cannot be reached of a placement whose node was never
// Ready, "" while nothing speaks against it. The handshake goes on meanwhile: it needs the
// broker alone. What was Ready once is not left for that: Liqo may be back before the
// broker has found anybody else.
func (r *Reconciler) unreached(inst *agentv1alpha1.ReservationInstruction, ready bool) string {
	if inst.Spec.TargetClusterEndpoint == "" || inst.Status.Delivered || ready {
		r.opts.Reach.Forget(inst.Name)
		return ""
	}
	why, _ := r.opts.Reach.Check(inst.Name, inst.Spec.TargetClusterEndpoint)
	return why
}
