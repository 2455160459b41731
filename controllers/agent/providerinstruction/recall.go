package providerinstruction

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// recordRecall writes into the status whether the operator recalls the placement, and until when
// the placement may stay. The advertisements report the recall to the broker, and the broker ends
// the placement.
func (r *Reconciler) recordRecall(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	policy, err := configuration.ReadLendingPolicy(ctx, r.client)
	if err != nil {
		return err
	}
	before := inst.DeepCopy()
	inst.Status.Recalled = recalledOf(inst, wire.Recalls(policy), metav1.NewTime(r.now()))
	_, err = patch.Status(ctx, r.client, inst, before)
	return err
}

// recalledOf returns the recall of a placement, or nil. The notice period begins when the recall
// was first recorded. A restart of the agent or a new length of the period does not change its
// beginning. A placement that has ended or has no reserved capacity is not recalled.
func recalledOf(inst *agentv1alpha1.ProviderInstruction, all []lending.Recall, now metav1.Time) *agentv1alpha1.RecalledPlacement {
	if inst.Ended() || !inst.Status.Enforced {
		return nil
	}
	recall := lending.RecallOf(all, inst.Spec.RequesterClusterID, inst.Spec.ReservationName)
	if recall == nil {
		return nil
	}
	since := now.Rfc3339Copy() // the precision that the API server stores
	if old := inst.Status.Recalled; old != nil {
		since = old.Since
	}
	return &agentv1alpha1.RecalledPlacement{
		Since: since, EndsAt: metav1.NewTime(since.Add(recall.Notice)).Rfc3339Copy(), Message: recall.Message,
	}
}

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
	if !r.reports.IsReceived(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateRefused) {
		return nil
	}
	before := inst.DeepCopy()
	setCondition(inst, agentv1alpha1.ConditionAcknowledged, why, r.now())
	_, err := patch.StatusFields(ctx, r.client, inst, before)
	return client.IgnoreNotFound(err)
}
