package providerinstruction

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// admitSlice lets the consumer create its ResourceSlice before this cluster has decided about the placement. The
// consumer learns of the placement at the same time as this cluster. Without the right, Liqo would retry with pauses
// that double each time.
func (r *Reconciler) admitSlice(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if r.opts.AdmitSlice == nil || inst.Ended() || inst.IsDecided() {
		return nil
	}
	if err := r.opts.AdmitSlice(ctx, inst); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderSliceAdmitted)
	return nil
}

// setupRights adds a controller for the rights of the peers' identities, which the admission policies enforce.
func setupRights(mgr manager.Manager, opts Options) error {
	if opts.RightsNamespace == "" {
		return nil
	}
	// The rights are written again if somebody edits the namespace that holds them.
	relevant := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetName() == opts.RightsNamespace || object.IsTenantNamespace(obj)
	})
	return wholeController(mgr, "rights").
		Watches(&corev1.Namespace{}, wakesWhole[client.Object](), builder.WithPredicates(relevant)).
		Complete(whole{keep: func(ctx context.Context) error { return opts.Peering.KeepRights(ctx, opts.RightsNamespace) }})
}

// bindingsEvery is the pause between two passes over the RoleBindings, because an ended identity
// loses its rights by the time and without an event.
const bindingsEvery = 5 * time.Second

// setupBindings adds a controller that restricts Liqo's RoleBindings; see guard.KeepBindings.
func setupBindings(mgr manager.Manager, opts Options) error {
	if !opts.BindSlices {
		return nil
	}
	remote := predicate.NewPredicateFuncs(guard.IsRemoteBinding)
	return wholeController(mgr, "bindings").
		Watches(&rbacv1.RoleBinding{}, wakesWhole[client.Object](), builder.WithPredicates(remote)).
		Complete(whole{keep: opts.Peering.KeepBindings, again: bindingsEvery})
}

// whole is a reconciler for state that all placements share, such as the rights of peers. All
// events result in the same reconcile request, so several events during one run cause only one more
// run.
type whole struct {
	keep func(context.Context) error
	// again is the pause after which a pass runs even without an event; 0 means never.
	again time.Duration
}

// Reconcile runs one pass. It ignores the request.
func (w whole) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(w.again, w.keep(ctx))
}

// wholeController returns a builder for a whole that runs after every change of a ProviderInstruction.
func wholeController(mgr manager.Manager, name string) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: instruction.Retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, wakesWhole[client.Object]())
}

func wakesWhole[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return []reconcile.Request{{}} })
}

// reassertQuotas is how often the quotas are compared with the limits even if no event arrives. The
// comparison matters after a CRD was installed, which causes no event: until the next comparison,
// the number of the CRD's objects is not limited.
const reassertQuotas = time.Minute

// setupObjectQuotas adds a controller that keeps a ResourceQuota in every namespace in which peers
// create objects, to limit their number.
func setupObjectQuotas(mgr manager.Manager, opts Options) error {
	limits := opts.ObjectLimits
	if len(limits.Offloaded) == 0 && len(limits.Tenant) == 0 {
		return nil
	}
	return wholeController(mgr, "objectquota").
		Watches(&corev1.Namespace{}, wakesWhole[client.Object](), builder.WithPredicates(predicate.NewPredicateFuncs(guard.BoundsObjects))).
		Complete(whole{
			keep:  func(ctx context.Context) error { return opts.Peering.KeepObjectQuotas(ctx, limits) },
			again: reassertQuotas,
		})
}
