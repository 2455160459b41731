package providerinstruction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// reassertQuotas is how often quotas are looked at that nothing tells of.
const reassertQuotas = 5 * time.Minute

// setupQuotas keeps a ResourceQuota in the namespaces that consumers have offloaded.
func setupQuotas(mgr manager.Manager, opts Options) error {
	if !opts.NamespaceQuota {
		return nil
	}
	offloaded := predicate.NewPredicateFuncs(func(obj client.Object) bool { return liqo.ConsumerOf(obj) != "" })
	return wholeController(mgr, "namespacequota").
		Watches(&corev1.Namespace{}, wakesWhole[client.Object](), builder.WithPredicates(offloaded)).
		Complete(whole{keep: opts.Peering.KeepQuotas, again: reassertQuotas})
}
