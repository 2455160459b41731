package providerinstruction

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// sliceReconciler grants or denies ResourceSlices that Liqo replicated from other clusters.
type sliceReconciler struct {
	client client.Client
	opts   Options
}

func setupSlices(mgr manager.Manager, opts Options) error {
	r := &sliceReconciler{client: mgr.GetClient(), opts: opts}
	replicated := predicate.NewPredicateFuncs(func(obj client.Object) bool { return object.Replicated(obj) })
	return ctrl.NewControllerManagedBy(mgr).
		Named("resourceslice").
		For(liqo.NewSlice(), builder.WithPredicates(replicated)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: instruction.Retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(r.slicesOf)).
		Complete(r)
}

// Reconcile grants or denies one slice. It makes the consumer's Liqo send an incomplete slice
// again. If the slice no longer exists, Reconcile calls ForgetSlice instead.
func (r *sliceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var at guard.Place
	if r.opts.Place != nil {
		at = r.opts.Place()
	}
	again, err := r.opts.Peering.ResendSlice(ctx, req.NamespacedName)
	if err != nil {
		return patch.Requeue(0, err)
	}
	if found, err := r.hasInstruction(ctx, req.NamespacedName); err != nil || !found {
		if err == nil {
			err = r.opts.Peering.ForgetSlice(ctx, req.Namespace, req.Name)
		}
		return ctrl.Result{}, err
	}
	return patch.Requeue(again, r.opts.Peering.Grant(ctx, req.NamespacedName, at))
}

func (r *sliceReconciler) hasInstruction(ctx context.Context, key types.NamespacedName) (bool, error) {
	err := r.client.Get(ctx, key, liqo.NewSlice())
	return err == nil, client.IgnoreNotFound(err)
}

func (r *sliceReconciler) slicesOf(ctx context.Context, obj client.Object) []reconcile.Request {
	inst, ok := obj.(*agentv1alpha1.ProviderInstruction)
	if !ok || inst.Namespace != r.opts.Namespace {
		return nil
	}
	namespace, err := r.opts.Peering.TenantNamespaceOf(ctx, inst.Spec.RequesterClusterID)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "finding the slice of a ProviderInstruction failed", "instruction", inst.Name)
	}
	if namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: inst.Name}}}
}
