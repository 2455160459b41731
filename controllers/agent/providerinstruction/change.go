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

// decideChange asks for admission of other amounts than those that are kept, once, and
// writes the answer before anything is granted by it. To keep less needs no admission.
func (r *Reconciler) decideChange(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if inst.Ended() || !inst.Status.Enforced || !changes(inst) {
		return nil
	}
	admission := Admission{Admitted: true}
	if grows(inst.Kept(), inst.Spec.Resources) {
		var err error
		if admission, err = r.opts.Admit(ctx, inst); err != nil {
			return err
		}
	}
	before := inst.DeepCopy()
	describeChange(inst, admission, r.now())
	if err := r.client.Status().Patch(ctx, inst, patch.IfUnchanged(before)); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderChangeDecided)
	return nil
}

// changes reports whether there is something to decide. What was refused is not asked again.
func changes(inst *agentv1alpha1.ProviderInstruction) bool {
	if inst.Spec.Change != 0 {
		return inst.Status.Change != inst.Spec.Change
	}
	return !equality.Semantic.DeepEqual(inst.Kept(), inst.Spec.Resources)
}

func grows(kept, wanted corev1.ResourceList) bool {
	for name, amount := range wanted {
		if had := kept[name]; amount.Cmp(had) > 0 {
			return true
		}
	}
	return false
}

// describeChange writes this cluster's answer. What is kept is from here on what every
// grant and every count goes by.
func describeChange(inst *agentv1alpha1.ProviderInstruction, a Admission, now metav1.Time) {
	inst.Status.Change = inst.Spec.Change
	aspect := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonChanged, Message: "what is wanted now is kept"}
	if a.Admitted {
		noteReduction(inst, now)
		inst.Status.Granted = inst.Spec.Resources.DeepCopy()
	} else {
		inst.Status.Granted = inst.Kept().DeepCopy()
		aspect = placement.Aspect{Reason: orRefused(a.Reason), Message: fmt.Sprintf("%s; what was kept before is kept", a.Message)}
	}
	set(inst, agentv1alpha1.ConditionChanged, aspect, now)
}

// noteReduction keeps what was granted until now where less is kept from now on: pods that
// run stay. The enforcement drops it once they fit.
func noteReduction(inst *agentv1alpha1.ProviderInstruction, now metav1.Time) {
	if !grows(inst.Spec.Resources, inst.Kept()) {
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

// sayChange answers the broker: yes as soon as nothing more than what is kept is given.
func (r *Reconciler) sayChange(inst *agentv1alpha1.ProviderInstruction, state plan.ProviderState) {
	c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionChanged)
	switch {
	case c == nil || inst.Status.Change != inst.Spec.Change:
		return // not decided yet
	case c.Status == metav1.ConditionFalse:
		r.answer(inst, v1.StatusReportStateRefused, placement.Aspect{Reason: c.Reason, Message: c.Message})
	case !state.Exceeds:
		r.answer(inst, v1.StatusReportStateAcknowledged, placement.Aspect{Reason: agentv1alpha1.ReasonChanged})
		failpoint.Hit(failpoint.ProviderChangeAgreed)
	}
}
