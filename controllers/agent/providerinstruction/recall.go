package providerinstruction

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// callBack writes down whether the operator wants the placement back, and until when it
// stays. The broker is told with every advertisement; what it makes of that comes as any
// other end does.
func (r *Reconciler) callBack(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	policy, err := configuration.ReadLendingPolicy(ctx, r.client)
	if err != nil {
		return err
	}
	recalled := recalledOf(inst, wire.Recalls(policy), r.now())
	if equality.Semantic.DeepEqual(inst.Status.Recalled, recalled) {
		return nil
	}
	before := inst.DeepCopy()
	inst.Status.Recalled = recalled
	return r.client.Status().Patch(ctx, inst, patch.IfUnchanged(before))
}

// recalledOf counts the notice from when it was first given, whoever restarts and however
// the notice is edited. What is not kept, or on its way out, is not called back.
func recalledOf(inst *agentv1alpha1.ProviderInstruction, all []lending.Recall, now metav1.Time) *agentv1alpha1.RecalledPlacement {
	if inst.Ended() || !inst.Status.Enforced {
		return nil
	}
	recall := lending.RecallOf(all, inst.Spec.RequesterClusterID, inst.Spec.ReservationName)
	if recall == nil {
		return nil
	}
	since := now.Rfc3339Copy() // as it is stored
	if old := inst.Status.Recalled; old != nil {
		since = old.Since
	}
	return &agentv1alpha1.RecalledPlacement{
		Since: since, EndsAt: metav1.NewTime(since.Add(recall.Notice)).Rfc3339Copy(), Message: recall.Message,
	}
}

// all wakes every instruction: a policy may concern any.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list agentv1alpha1.ProviderInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.opts.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ProviderInstructions")
		return nil
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i] = r.request(list.Items[i].Name)
	}
	return out
}
