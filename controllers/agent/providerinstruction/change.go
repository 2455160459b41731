package providerinstruction

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// decideChange requests admission of changed amounts, once, and writes the answer before any
// grant uses it. A reduction needs no admission.
func (r *Reconciler) decideChange(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if inst.Ended() || !inst.Status.Enforced || !awaitsDecision(inst) {
		return nil
	}
	admission := Admission{Admitted: true}
	if growsBeyond(inst.Kept(), inst.Spec.Resources) {
		var err error
		if admission, err = r.opts.Admit(ctx, inst); err != nil {
			return err
		}
	}
	before := inst.DeepCopy()
	recordChange(inst, admission, r.now())
	if err := r.client.Status().Patch(ctx, inst, patch.IfUnchanged(before)); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderChangeDecided)
	return nil
}

// awaitsDecision reports whether a change awaits a decision. A refused change is not submitted again.
func awaitsDecision(inst *agentv1alpha1.ProviderInstruction) bool {
	if inst.Spec.Change != 0 {
		return inst.Status.Change != inst.Spec.Change
	}
	return !equality.Semantic.DeepEqual(inst.Kept(), inst.Spec.Resources)
}

func growsBeyond(kept, wanted corev1.ResourceList) bool {
	for name, amount := range wanted {
		if had := kept[name]; amount.Cmp(had) > 0 {
			return true
		}
	}
	return false
}

// recordChange writes this cluster's decision on a change into the status. From then on, every grant and every count uses
// the kept amounts.
func recordChange(inst *agentv1alpha1.ProviderInstruction, a Admission, now metav1.Time) {
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

// noteReduction records the previous grant if the new one is smaller, because the pods that run now
// may exceed the new one. The enforcement controller drops the record once the pods fit.
func noteReduction(inst *agentv1alpha1.ProviderInstruction, now metav1.Time) {
	if !growsBeyond(inst.Spec.Resources, inst.Kept()) {
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
	inst.Status.Reduced = &agentv1alpha1.ReducedGrant{Resources: before, At: now}
}

// reportChange answers the broker. It agrees as soon as the grant no longer exceeds the kept
// amounts.
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
