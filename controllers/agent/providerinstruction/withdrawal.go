package providerinstruction

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// isWithdrawn reports whether a user deleted an instruction that the broker still wants carried
// out. The broker must learn of the withdrawal before it hears that nothing is left. It does
// not accept that report for a standing placement, and would leave the consumer there.
func isWithdrawn(inst *agentv1alpha1.ProviderInstruction) bool {
	return inst.DeletionTimestamp != nil && !inst.Spec.Release && !isRefused(inst)
}

// reportWithdrawal reports the withdrawal to the broker, which then makes the consumer leave as at any
// other end. It records that the broker has the report.
func (r *Reconciler) reportWithdrawal(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	why := placement.Aspect{Reason: agentv1alpha1.ReasonRefused, Message: "its ProviderInstruction was deleted: this cluster no longer lends to it"}
	r.sendReport(inst, v1.StatusReportStateRefused, why)
	if !r.reports.Heard(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateRefused) {
		return nil
	}
	before := inst.DeepCopy()
	setCondition(inst, agentv1alpha1.ConditionAcknowledged, why, r.now())
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, inst, client.MergeFrom(before)))
}
