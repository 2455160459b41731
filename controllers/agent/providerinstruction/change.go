package providerinstruction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// decideChange decides about changed amounts of a placement, once for each change. An increase
// needs admission; a reduction does not. The decision is written into the status before any slice
// is granted the new amounts.
func (r *Reconciler) decideChange(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if inst.Ended() || !inst.Status.Enforced || !awaitsDecision(inst) {
		return nil
	}
	decision := admission.Decision{Admitted: true}
	if quantity.Exceeds(inst.Spec.Resources, inst.Kept()) {
		var err error
		if decision, err = r.opts.Admit(ctx, inst); err != nil {
			return err
		}
	}
	before := inst.DeepCopy()
	recordChange(inst, decision, r.now())
	if err := r.client.Status().Patch(ctx, inst, patch.IfUnchanged(before)); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderChangeDecided)
	return nil
}

// awaitsDecision reports whether this cluster must still decide about a change. It decides once.
func awaitsDecision(inst *agentv1alpha1.ProviderInstruction) bool {
	if inst.Spec.Change != 0 {
		return inst.Status.Change != inst.Spec.Change
	}
	return !equality.Semantic.DeepEqual(inst.Kept(), inst.Spec.Resources)
}

// recordChange writes this cluster's decision about a change into the status. From then on, Kept
// returns the amounts that result from the decision, and all grants and totals use Kept.
func recordChange(inst *agentv1alpha1.ProviderInstruction, a admission.Decision, now time.Time) {
	inst.Status.Change = inst.Spec.Change
	aspect := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonChanged, Message: "the new amounts are reserved"}
	if a.Admitted {
		noteReduction(inst, now)
		inst.Status.Granted = inst.Spec.Resources.DeepCopy()
	} else {
		inst.Status.Granted = inst.Kept().DeepCopy()
		aspect = placement.Aspect{Reason: reasonOrRefused(a.Reason), Message: fmt.Sprintf("%s; the previous amounts stay reserved", a.Message)}
	}
	setCondition(inst, agentv1alpha1.ConditionChanged, aspect, now)
}

// noteReduction records the previous grant if the new one is smaller in any resource, because
// running pods may exceed the new one. If an earlier reduction is still recorded, the record keeps
// the larger amounts of both. The enforcement controller removes the record once the pods fit.
func noteReduction(inst *agentv1alpha1.ProviderInstruction, now time.Time) {
	if !quantity.Exceeds(inst.Kept(), inst.Spec.Resources) {
		return
	}
	before := inst.Kept().DeepCopy()
	if earlier := inst.Status.Reduced; earlier != nil {
		for name, amount := range earlier.Resources {
			if had := before[name]; amount.Cmp(had) > 0 {
				before[name] = amount
			}
		}
	}
	inst.Status.Reduced = &agentv1alpha1.ReducedGrant{Resources: before, At: metav1.NewTime(now)}
}

// reportChange reports agreement only once Liqo's grant in this cluster no longer exceeds the kept amounts.
func (r *Reconciler) reportChange(inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) {
	c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionChanged)
	switch {
	case c == nil || inst.Status.Change != inst.Spec.Change:
		return // not decided yet
	case c.Status == metav1.ConditionFalse:
		r.answerChange(inst, v1.StatusReportStateRefused, placement.Aspect{Reason: c.Reason, Message: c.Message})
	case !state.Exceeds:
		r.answerChange(inst, v1.StatusReportStateAcknowledged, placement.Aspect{Reason: agentv1alpha1.ReasonChanged})
		failpoint.Hit(failpoint.ProviderChangeAgreed)
	}
}
