package providerinstruction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

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
	r.reports.SayExcess(inst.Spec.ReservationName, inst.Spec.Placement, report, version)
}
