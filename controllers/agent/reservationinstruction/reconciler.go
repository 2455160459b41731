package reservationinstruction

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

const (
	// never means that only an event triggers the next reconcile.
	never time.Duration = 0
	// departureRetry is the delay before Reconcile again tries to delete an instruction that must
	// first remove the peering. No event would trigger the retry if the other instructions that used
	// the peering are already gone.
	departureRetry = time.Second
)

// Reconcile handles one instruction: it carries it out, updates its status and reports to the
// broker.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(r.reconcile(ctx, req))
}

// reconcile returns the delay after which it must run again even without an event.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request) (time.Duration, error) {
	inst := &agentv1alpha1.ReservationInstruction{}
	if claimed, err := r.queue.Claim(ctx, req, inst); !claimed {
		return never, err
	}
	state, err := r.carryOut(ctx, inst)
	if err != nil {
		return never, err
	}
	now := r.opts.Clock.Now()
	if err := r.writeStatus(ctx, inst, state, now); err != nil {
		return never, client.IgnoreNotFound(err) // the instruction is gone, only the cache still has it
	}
	r.noteStep(inst, state, now)
	r.reportState(inst, state)
	vacating, err := r.vacateNode(ctx, inst, now)
	if err != nil {
		return never, err
	}
	if !state.Done || !r.reports.IsReceived(inst.Spec.ReservationName, inst.Spec.Placement, v1.StatusReportStateGone) {
		return patch.Soonest(state.Again, vacating, untilNotice(inst, r.opts.ExpiryNotice, now)), nil
	}
	departed, err := r.removeFinalizer(ctx, inst)
	if !departed {
		return departureRetry, err
	}
	return never, err
}

func (r *Reconciler) carryOut(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (plan.ConsumerState, error) {
	if r.peering != nil {
		return r.peering.Consume(ctx, inst)
	}
	gone := inst.Ended()
	state := plan.ConsumerState{Phase: agentv1alpha1.InstructionPending, Gone: gone, Done: gone}
	if gone {
		state.Phase = agentv1alpha1.InstructionReleased
	}
	return state, nil
}

// reportState reports the state of the placement to the broker: that the node waits only for the
// network, that it is Ready, that it is no longer Ready, that it cannot become Ready, or that
// nothing of the placement is left.
func (r *Reconciler) reportState(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState) {
	switch {
	case state.Gone:
		r.sendReport(inst, v1.StatusReportStateGone, placement.Aspect{Reason: agentv1alpha1.ReasonReleased})
		failpoint.Hit(failpoint.ConsumerGone)
	case r.opts.Peering == nil || state.Phase == agentv1alpha1.InstructionReleasing:
	default:
		r.reportDelivery(inst, state)
	}
}

func (r *Reconciler) reportDelivery(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState) {
	node := state.NodeReady
	why, known := r.unreachedReason(inst, node.True)
	switch {
	case why != "":
		r.sendReport(inst, v1.StatusReportStateRefused, placement.Aspect{Reason: agentv1alpha1.ReasonUnreachable, Message: why})
	case node.Reason == agentv1alpha1.ReasonHandshakeRefused && !inst.Status.Delivered:
		if !known {
			return // wait for the probe: an unreachable provider is reported as such, so that the broker avoids it for this cluster
		}
		r.sendReport(inst, v1.StatusReportStateRefused, node)
	case inst.Status.Delivered && (state.Health.Reason == agentv1alpha1.ReasonSliceDenied || state.Unserved):
		// The node stays Ready, but the provider accepts no more pods, or runs none. The broker does not
		// learn of other rejected pods: most are the fault of the pod, and moving would end the others.
		r.sendReport(inst, v1.StatusReportStateNotReady, state.Health)
	case node.True:
		r.sendReport(inst, v1.StatusReportStateReady, node)
		failpoint.Hit(failpoint.ConsumerReady)
	case inst.Status.Delivered:
		r.sendReport(inst, v1.StatusReportStateNotReady, node)
	case state.Connecting:
		r.sendReport(inst, v1.StatusReportStateConnecting, state.Network)
	}
}

func (r *Reconciler) sendReport(inst *agentv1alpha1.ReservationInstruction, state v1.StatusReportState, why placement.Aspect) {
	name := inst.Name
	r.reports.ReportState(inst.Spec.ReservationName, inst.Spec.Placement, state, why.Reason, why.Message, func() { r.queue.Add(name) })
}

// removeFinalizer removes the instruction's finalizer, once the broker knows that nothing of the
// placement is left. It returns false if the instruction must stay, because it is now the last one
// for its provider and must remove the peering first.
func (r *Reconciler) removeFinalizer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	departed, err := r.leavePlacement(ctx, inst)
	if departed && err == nil {
		if r.opts.Reach != nil {
			r.opts.Reach.Forget(inst.Name)
		}
		r.reports.Forget(inst.Spec.ReservationName, inst.Spec.Placement)
		delete(r.drained, inst.Name)
		failpoint.Hit(failpoint.ConsumerDeleted)
	}
	return departed, err
}

func (r *Reconciler) leavePlacement(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	if r.peering != nil {
		return r.peering.DepartConsumer(ctx, inst)
	}
	return true, patch.Delete(ctx, r.client, inst, agentv1alpha1.PeeringFinalizer)
}

func (r *Reconciler) noteStep(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, now time.Time) {
	r.opts.Steps.Note(tracing.Span{
		Reservation: inst.Spec.ReservationName, Placement: inst.Spec.Placement, Provider: inst.Spec.TargetClusterID,
	}, stepOf(inst, state), now)
}

func stepOf(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState) string {
	switch {
	case state.Gone:
		return ""
	case inst.Ended():
		return "drain and remove"
	case state.NodeReady.True:
		return ""
	case inst.Status.Delivered:
		return "recover node"
	case state.Peered.True:
		return "set up node"
	}
	return "peer"
}

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
