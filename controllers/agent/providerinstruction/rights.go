package providerinstruction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// openRights writes the consumer's rights before the broker, and through it the consumer,
// learns that this cluster provides. Otherwise the consumer's slice could arrive first and be
// rejected.
func (r *Reconciler) openRights(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	if r.opts.OpenRights == nil || inst.Ended() || !inst.Status.Enforced {
		return nil
	}
	if err := r.opts.OpenRights(ctx, inst); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ProviderRightsOpened)
	return nil
}

// setupRights maintains the rights of the peers' identities.
func setupRights(mgr manager.Manager, opts Options) error {
	tenant := predicate.NewPredicateFuncs(func(obj client.Object) bool { return object.IsTenantNamespace(obj) })
	return wholeController(mgr, "rights").
		// A re-created Advertisement has no rights in its status, and a user may edit them.
		Watches(&agentv1alpha1.Advertisement{}, wakesWhole[client.Object]()).
		Watches(&corev1.Namespace{}, wakesWhole[client.Object](), builder.WithPredicates(tenant)).
		Complete(whole{keep: func(ctx context.Context) error { return opts.Peering.KeepRights(ctx, opts.Rights) }})
}

// setupBindings maintains the bindings of Liqo's role in offloaded namespaces.
func setupBindings(mgr manager.Manager, opts Options) error {
	if !opts.BindSlices {
		return nil
	}
	remote := predicate.NewPredicateFuncs(guard.IsRemoteBinding)
	return wholeController(mgr, "bindings").
		Watches(&rbacv1.RoleBinding{}, wakesWhole[client.Object](), builder.WithPredicates(remote)).
		Complete(whole{keep: opts.Peering.KeepBindings})
}
