package providerinstruction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (r *Reconciler) now() time.Time { return r.opts.Clock.Now() }

func (r *Reconciler) writeStatus(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) error {
	before := inst.DeepCopy()
	describeStatus(inst, state, r.now())
	r.describeHold(inst)
	r.describeExcess(inst)
	instruction.DescribeReceipt(&inst.Status.Conditions, inst.Spec.ReceiptProblem, inst.Generation, r.now())
	if written, err := patch.StatusFields(ctx, r.client, inst, before); !written {
		return err
	}
	instruction.RecordReceipt(r.opts.Recorder, inst, inst.Status.Conditions, before.Status.Conditions)
	if state.Gone {
		failpoint.Hit(failpoint.ProviderReleased)
	}
	return nil
}

// describeAdmission writes this cluster's decision about a placement into the status. If the
// placement is accepted, it sets status.enforced, and all totals of reserved capacity include the
// placement from then on.
func (r *Reconciler) describeAdmission(inst *agentv1alpha1.ProviderInstruction, a admission.Decision) {
	inst.Status.Enforced, inst.Status.Phase = a.Admitted, agentv1alpha1.InstructionPeering
	if a.NewNodes != nil {
		inst.Status.NewNodes, inst.Status.Phase = r.addNewNodes(inst.Status.NewNodes, a.NewNodes), agentv1alpha1.InstructionProvisioning
		return
	}
	inst.Status.NewNodes = nil
	inst.Status.Granted, inst.Status.Change = inst.Spec.Resources.DeepCopy(), inst.Spec.Change
	aspect := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonAcknowledged,
		Message: fmt.Sprintf("capacity is reserved for %q", inst.Spec.RequesterClusterID)}
	if !a.Admitted {
		inst.Status.Phase = agentv1alpha1.InstructionRefused
		aspect = placement.Aspect{Reason: reasonOrRefused(a.Reason), Message: a.Message}
	}
	setCondition(inst, agentv1alpha1.ConditionAcknowledged, aspect, r.now())
}

func reasonOrRefused(reason string) string {
	if reason == "" {
		return agentv1alpha1.ReasonRefused
	}
	return reason
}

func describeStatus(inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState, now time.Time) {
	inst.Status.ObservedGeneration, inst.Status.Phase = inst.Generation, state.Phase
	if isRefused(inst) && !inst.Ended() {
		c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
		setCondition(inst, agentv1alpha1.ConditionReady, placement.Aspect{Reason: c.Reason, Message: c.Message}, now)
		inst.Status.Message = c.Message
		return
	}
	if inst.Ended() && inst.Status.ReleasingSince == nil {
		inst.Status.ReleasingSince = &metav1.Time{Time: now}
	}
	if state.Gone {
		inst.Status.Enforced, inst.Status.NewNodes = false, nil
	}
	setCondition(inst, agentv1alpha1.ConditionGranted, state.Granted, now)
	ready := placement.Aspect{True: inst.Status.Enforced && !inst.Ended(), Reason: state.Granted.Reason, Message: state.Granted.Message}
	setCondition(inst, agentv1alpha1.ConditionReady, ready, now)
	inst.Status.Message = state.Granted.Message
}

func setCondition(inst *agentv1alpha1.ProviderInstruction, kind string, a placement.Aspect, now time.Time) {
	a.SetIn(&inst.Status.Conditions, kind, inst.Generation, now)
}
