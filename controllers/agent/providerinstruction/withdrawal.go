package providerinstruction

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// withdraws reports whether somebody has deleted an instruction that the broker wants carried
// out. The broker has to hear that before it hears that nothing is left: it does not
// believe that of a placement that stands, and would leave the consumer where it is.
func withdraws(inst *agentv1alpha1.ProviderInstruction) bool {
	return inst.DeletionTimestamp != nil && !inst.Spec.Release && !refused(inst)
}

// withdraw tells the broker, which has the consumer leave as at any end, and notes that it
// was told.
func (r *Reconciler) withdraw(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	why := placement.Aspect{Reason: agentv1alpha1.ReasonRefused, Message: "its ProviderInstruction was deleted: this cluster does not lend to it any more"}
	r.say(inst, v1.StatusReportStateRefused, why)
	if !r.reports.Heard(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateRefused) {
		return nil
	}
	before := inst.DeepCopy()
	set(inst, agentv1alpha1.ConditionAcknowledged, why, r.now())
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, inst, client.MergeFrom(before)))
}
