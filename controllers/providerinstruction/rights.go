package providerinstruction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// setupRights keeps what the identities of peers may do.
func setupRights(mgr manager.Manager, opts Options) error {
	tenant := predicate.NewPredicateFuncs(func(obj client.Object) bool { return liqo.IsTenantNamespace(obj) })
	return wholeController(mgr, "rights").
		// One that is made anew has none, and a person may edit them.
		Watches(&agentv1alpha1.Advertisement{}, wakesWhole[client.Object]()).
		Watches(&corev1.Namespace{}, wakesWhole[client.Object](), builder.WithPredicates(tenant)).
		Complete(whole{keep: func(ctx context.Context) error { return opts.Peering.KeepRights(ctx, opts.Rights) }})
}
