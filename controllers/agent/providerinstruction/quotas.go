package providerinstruction

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

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
