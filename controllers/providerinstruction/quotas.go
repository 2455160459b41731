package providerinstruction

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// reassertQuotas is how often quotas are looked at that nothing tells of.
const reassertQuotas = 5 * time.Minute

// quotaReconciler keeps a ResourceQuota in the namespaces that consumers have offloaded.
type quotaReconciler struct{ opts Options }

func setupQuotas(mgr manager.Manager, opts Options) error {
	if !opts.NamespaceQuota {
		return nil
	}
	r := &quotaReconciler{opts: opts}
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	offloaded := predicate.NewPredicateFuncs(func(obj client.Object) bool { return liqo.ConsumerOf(obj) != "" })
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespacequota").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, all).
		Watches(&corev1.Namespace{}, all, builder.WithPredicates(offloaded)).
		Complete(r)
}

// Reconcile writes all quotas, whatever moved.
func (r *quotaReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{RequeueAfter: reassertQuotas}, r.opts.Peering.KeepQuotas(ctx)
}

func (r *quotaReconciler) all(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: liqo.NamespaceQuotaName}}}
}
