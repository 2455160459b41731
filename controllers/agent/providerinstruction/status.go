package providerinstruction

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
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

// describeExcess derives the condition WithinGrant from status.excess, which the enforcement controller writes.
func (r *Reconciler) describeExcess(inst *agentv1alpha1.ProviderInstruction) {
	if inst.Status.Excess == nil {
		meta.RemoveStatusCondition(&inst.Status.Conditions, agentv1alpha1.ConditionWithinGrant)
		return
	}
	setCondition(inst, agentv1alpha1.ConditionWithinGrant, excessAspect(inst), r.now())
}

func excessAspect(inst *agentv1alpha1.ProviderInstruction) placement.Aspect {
	excess, consumer := inst.Status.Excess, inst.Spec.RequesterClusterID
	if len(excess.Resources) > 0 {
		return placement.Aspect{Reason: agentv1alpha1.ReasonExceedsGrant, Message: fmt.Sprintf(
			"pods of %q exceed the grant by %s: new pods are refused and the newest are evicted until the rest fits, %d so far; if it continues, stop lending to %q (LendingPolicy)",
			consumer, amountsInWords(excess.Resources), excess.EvictedPods, consumer)}
	}
	message := fmt.Sprintf("pods fit the grant; they exceeded it until %s, by up to %s, and %d were evicted",
		excess.LastSeen.UTC().Format("2006-01-02T15:04:05Z"), amountsInWords(excess.Largest), excess.EvictedPods)
	if excess.Cordoned {
		message += "; new pods are refused for a minute"
	}
	return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonWithinGrant, Message: message}
}

func amountsInWords(list corev1.ResourceList) string {
	amounts, err := quantity.FromResourceList(list)
	if err != nil {
		return "unreadable amounts"
	}
	var words []string
	for _, name := range amounts.Names() {
		words = append(words, fmt.Sprintf("%s of %s", quantity.Format(name, amounts[name]), name))
	}
	return strings.Join(words, " and ")
}

// mostReported is the largest number of resources that the broker accepts in one report of an
// excess.
const mostReported = 16

// reportExcess tells the broker that the pods of a placement exceed the grant: once when the excess
// begins, and once when the pods fit again. The second report contains how many pods were evicted.
func (r *Reconciler) reportExcess(inst *agentv1alpha1.ProviderInstruction) {
	excess := inst.Status.Excess
	if excess == nil || isRefused(inst) || inst.Ended() || !inst.Status.Enforced {
		return
	}
	largest := corev1.ResourceList{}
	for name, amount := range excess.Largest {
		if len(largest) < mostReported {
			largest[name] = amount
		}
	}
	report := &v1.Excess{Pods: excess.EvictedPods, Resources: wire.FromResourceList(largest)}
	version := fmt.Sprintf("%d/%d", excess.LastSeen.Unix(), excess.EvictedPods)
	if len(excess.Resources) > 0 {
		version = "begun" // while the pods exceed the grant, one report is enough: the final report contains all evictions
	}
	r.reports.ReportExcess(inst.Spec.ReservationName, inst.Spec.Placement, report, version)
}
