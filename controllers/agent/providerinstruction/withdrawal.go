package providerinstruction

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// isWithdrawn reports whether an instruction that the broker has not ended was deleted in this
// cluster. The broker must learn of the deletion before it gets the report that nothing of the
// placement is left. Otherwise the broker would ignore the report, and the consumer would keep
// using the placement.
func isWithdrawn(inst *agentv1alpha1.ProviderInstruction) bool {
	return inst.DeletionTimestamp != nil && !inst.Spec.Release && !isRefused(inst)
}

// reportWithdrawal reports to the broker that this cluster refuses the placement from now on. The
// broker then ends the placement. Once the broker has the report, the status shows the refusal.
func (r *Reconciler) reportWithdrawal(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	why := placement.Aspect{Reason: agentv1alpha1.ReasonRefused, Message: "its ProviderInstruction was deleted: this cluster no longer lends to it"}
	r.sendReport(inst, v1.StatusReportStateRefused, why)
	if !r.reports.Heard(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateRefused) {
		return nil
	}
	before := inst.DeepCopy()
	setCondition(inst, agentv1alpha1.ConditionAcknowledged, why, r.now())
	_, err := patch.StatusFields(ctx, r.client, inst, before)
	return client.IgnoreNotFound(err)
}
