package reservationinstruction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (r *Reconciler) writeStatus(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, now time.Time) error {
	before := inst.DeepCopy()
	describeStatus(inst, state, r.opts.Peering == nil, now)
	describeEnding(inst, &before.Status, r.opts.ExpiryNotice, now)
	describeExcess(inst, now)
	instruction.DescribeReceipt(&inst.Status.Conditions, inst.Spec.ReceiptProblem, inst.Generation, now)
	if written, err := patch.StatusFields(ctx, r.client, inst, before); !written {
		return err
	}
	r.recordTransitions(inst, before)
	r.recordConcerned(inst, before, state.Concerned)
	r.observeDrain(inst, before, now)
	return nil
}

// describeStatus sets phase, conditions and message to describe the state of the placement.
// status.delivered stays true once the node has been Ready.
func describeStatus(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, skipped bool, now time.Time) {
	status := &inst.Status
	status.ObservedGeneration, status.Phase = inst.Generation, state.Phase
	if status.ReleasingSince == nil && inst.Ended() {
		status.ReleasingSince = &metav1.Time{Time: now}
	}
	set := func(kind string, a placement.Aspect) { a.SetIn(&status.Conditions, kind, inst.Generation, now) }
	if skipped {
		describeSkipped(inst, state, set)
		return
	}
	if state.Connecting && !status.Delivered {
		state.NodeReady = describeConnecting(inst, state.Network)
	}
	if by := inst.Spec.ProvisionBy; by != nil && !status.Delivered {
		state.NodeReady = placement.Waiting(agentv1alpha1.ReasonProvisioning, "%q creates nodes for this reservation, which must be Ready by %s", inst.Spec.TargetClusterID, formatInstant(*by))
		state.Peered = state.NodeReady
	}
	set(agentv1alpha1.ConditionPeered, state.Peered)
	set(agentv1alpha1.ConditionNodeReady, state.NodeReady)
	set(agentv1alpha1.ConditionOffloading, state.Offloading)
	passing := func(kind string, a placement.Aspect) {
		if a.Reason == "" {
			meta.RemoveStatusCondition(&status.Conditions, kind)
		} else {
			set(kind, a)
		}
	}
	passing(agentv1alpha1.ConditionHealthy, state.Health)
	passing(agentv1alpha1.ConditionNetworkConnected, state.Network)
	ready := firstFalse(state.Peered, state.NodeReady, state.Offloading)
	if state.Drained.Reason != "" {
		set(agentv1alpha1.ConditionDrained, state.Drained)
	}
	if state.Leaving != "" {
		ready = placement.Aspect{Reason: agentv1alpha1.ReasonReleasing, Message: state.Leaving}
	}
	set(agentv1alpha1.ConditionReady, ready)
	status.Message = message.Clip(ready.Message, message.MaxStatus)
	if state.NodeReady.True {
		status.Delivered = true
		status.NodeName = inst.PlacementName()
	}
}

// describeConnecting says until when the network, for which alone the node waits, must be connected.
func describeConnecting(inst *agentv1alpha1.ReservationInstruction, network placement.Aspect) placement.Aspect {
	until := ""
	if by := inst.Spec.ConnectBy; by != nil {
		until = " until " + formatInstant(*by)
	}
	return placement.Waiting(agentv1alpha1.ReasonNetworkPending, "setting up the network with %q%s: %s", inst.Spec.TargetClusterID, until, network.Message)
}

func describeSkipped(inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, set func(string, placement.Aspect)) {
	skipped := placement.Aspect{
		True: true, Reason: agentv1alpha1.ReasonPeeringSkipped,
		Message: fmt.Sprintf("capacity is reserved at %q; this agent runs with --peering-mode=none and does not peer", inst.Spec.TargetClusterID),
	}
	set(agentv1alpha1.ConditionPeeringSkipped, skipped)
	inst.Status.Delivered, inst.Status.Message = !state.Gone, skipped.Message
	skipped.True = false
	set(agentv1alpha1.ConditionReady, skipped)
}

// firstFalse returns the first aspect that is not true or, if all are true, the second one, about the node.
func firstFalse(aspects ...placement.Aspect) placement.Aspect {
	for _, a := range aspects {
		if !a.True {
			return a
		}
	}
	return aspects[1]
}

// describeExcess sets the condition WithinGrant to false once the provider has evicted pods. It stays false,
// because the broker does not tell the consumer when the pods fit again.
func describeExcess(inst *agentv1alpha1.ReservationInstruction, now time.Time) {
	if inst.Spec.Excess == nil {
		return
	}
	message.SetCondition(&inst.Status.Conditions, agentv1alpha1.ConditionWithinGrant, metav1.ConditionFalse, agentv1alpha1.ReasonExceedsGrant,
		wire.ExcessMessage(inst.Spec.TargetClusterID, inst.Spec.Excess), inst.Generation, now)
}
