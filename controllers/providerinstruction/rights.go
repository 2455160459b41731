package providerinstruction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// rightsReconciler keeps what the identities of peers may do.
type rightsReconciler struct{ opts Options }

func setupRights(mgr manager.Manager, opts Options) error {
	r := &rightsReconciler{opts: opts}
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	tenant := predicate.NewPredicateFuncs(func(obj client.Object) bool { return liqo.IsTenantNamespace(obj) })
	return ctrl.NewControllerManagedBy(mgr).
		Named("rights").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, all).
		// One that is made anew has none, and a person may edit them.
		Watches(&agentv1alpha1.Advertisement{}, all).
		Watches(&corev1.Namespace{}, all, builder.WithPredicates(tenant)).
		Complete(r)
}

// Reconcile writes all rights, whatever moved.
func (r *rightsReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	err := r.opts.Peering.KeepRights(ctx, r.opts.Rights)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: firstRetry}, nil
	}
	return ctrl.Result{}, err
}

func (r *rightsReconciler) all(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: r.opts.Rights}}
}
