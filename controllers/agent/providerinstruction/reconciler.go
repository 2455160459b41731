package providerinstruction

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// departureRetry is the delay before Reconcile again tries to delete an instruction that must first
// remove the peering. No event would trigger the retry if the other instructions that used the
// peering are already gone.
const departureRetry = time.Second

// Reconcile handles one instruction: it decides about it, carries it out, updates its status and
// reports to the broker.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(r.reconcile(ctx, req))
}

// reconcile returns the delay after which it must run again even without an event; 0 means never.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request) (time.Duration, error) {
	inst := &agentv1alpha1.ProviderInstruction{}
	if claimed, err := r.queue.Claim(ctx, req, inst); !claimed {
		return 0, err
	}
	if !inst.IsDecided() {
		r.noteStep(inst, plan.ProviderState{})
	}
	if err := r.admitSlice(ctx, inst); err != nil {
		return 0, err
	}
	if err := r.decideAdmission(ctx, inst); err != nil {
		return 0, err
	}
	if err := r.decideChange(ctx, inst); err != nil {
		return 0, err
	}
	if err := r.recordRecall(ctx, inst); err != nil {
		return 0, err
	}
	state, err := r.carryOut(ctx, inst)
	if err != nil {
		return 0, err
	}
	r.noteStep(inst, state)
	if err := r.writeStatus(ctx, inst, state); err != nil {
		return 0, client.IgnoreNotFound(err) // the instruction is gone, only the cache still has it
	}
	if isWithdrawn(inst) {
		return state.Again, r.reportWithdrawal(ctx, inst)
	}
	r.reportExcess(inst)
	stays, err := r.reportOutcome(ctx, inst, state)
	if stays {
		return patch.Soonest(state.Again, departureRetry), err
	}
	return state.Again, err
}

// decideAdmission decides whether this cluster provides the placement, once for each instruction.
// It writes the decision into the status before it is reported to the broker.
func (r *Reconciler) decideAdmission(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if inst.Ended() || inst.IsDecided() {
		return nil
	}
	awaited, err := r.awaitsNewNodes(ctx, inst)
	if err != nil {
		return err
	}
	decision, err := r.opts.Admit(ctx, inst)
	if err != nil {
		return err
	}
	if awaited && (decision.NewNodes != nil || decision.LacksRoom()) {
		return nil
	}
	before := inst.DeepCopy()
	r.describeAdmission(inst, decision)
	if err := r.client.Status().Patch(ctx, inst, patch.IfUnchanged(before)); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderAdmitted)
	return nil
}

func isRefused(inst *agentv1alpha1.ProviderInstruction) bool {
	return meta.IsStatusConditionFalse(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
}

func (r *Reconciler) carryOut(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (plan.ProviderState, error) {
	if isRefused(inst) && !inst.Ended() {
		return plan.ProviderState{Phase: agentv1alpha1.InstructionRefused}, nil
	}
	if inst.AwaitsNewNodes() && !inst.Ended() {
		return describeNewNodes(inst), nil
	}
	if r.opts.Peering != nil {
		return r.opts.Peering.Provide(ctx, inst)
	}
	state := plan.ProviderState{Phase: agentv1alpha1.InstructionPending, Granted: placement.Aspect{
		Reason: agentv1alpha1.ReasonPeeringSkipped, Message: "this agent runs with --peering-mode=none and does not peer",
	}}
	if inst.Ended() {
		state.Phase, state.Gone = agentv1alpha1.InstructionReleased, true
		state.Done = inst.Spec.Unpeer || inst.DeletionTimestamp != nil
	}
	return state, nil
}

// reportOutcome reports to the broker what was decided about the placement or, at the end, that
// nothing of it is left. Once the broker has that last report, reportOutcome removes the finalizer.
// It returns true if the instruction must stay, because it is now the last one for its consumer and
// must remove the peering first.
func (r *Reconciler) reportOutcome(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) (stays bool, err error) {
	switch {
	case state.Gone:
		r.sendReport(inst, v1.StatusReportStateGone, placement.Aspect{Reason: agentv1alpha1.ReasonReleased})
		failpoint.Hit(failpoint.ProviderGone)
	case inst.Ended():
	case isRefused(inst):
		c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
		r.sendReport(inst, v1.StatusReportStateRefused, placement.Aspect{Reason: c.Reason, Message: c.Message})
	case inst.AwaitsNewNodes():
		r.sendReport(inst, v1.StatusReportStateProvisioning, state.Granted)
	case inst.Spec.Change != 0:
		r.reportChange(inst, state)
	default:
		r.sendReport(inst, v1.StatusReportStateAcknowledged, placement.Aspect{Reason: agentv1alpha1.ReasonAcknowledged})
		failpoint.Hit(failpoint.ProviderAcknowledged)
	}
	if !state.Done || !r.reports.IsReceived(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateGone) {
		return false, nil
	}
	departed, err := r.leavePlacement(ctx, inst)
	if departed && err == nil {
		r.reports.Forget(inst.Spec.ReservationName, inst.Spec.Placement)
		failpoint.Hit(failpoint.ProviderDeleted)
	}
	return !departed, err
}

func (r *Reconciler) leavePlacement(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (bool, error) {
	if r.opts.Peering != nil {
		return r.opts.Peering.DepartProvider(ctx, inst)
	}
	return true, patch.Delete(ctx, r.client, inst, agentv1alpha1.PeeringFinalizer)
}

func (r *Reconciler) sendReport(inst *agentv1alpha1.ProviderInstruction, state v1.StatusReportState, why placement.Aspect) {
	r.reports.ReportState(inst.Spec.ReservationName, inst.Spec.Placement, state, why.Reason, why.Message, r.requeueFunc(inst.Name))
}

func (r *Reconciler) answerChange(inst *agentv1alpha1.ProviderInstruction, state v1.StatusReportState, why placement.Aspect) {
	r.reports.ReportAnswer(inst.Spec.ReservationName, inst.Spec.Placement, inst.Spec.Change, state, why, r.requeueFunc(inst.Name))
}

// requeueFunc returns a callback that enqueues an instruction once the broker has its report.
func (r *Reconciler) requeueFunc(name string) func() { return func() { r.queue.Add(name) } }

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
