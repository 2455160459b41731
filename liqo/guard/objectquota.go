package guard

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// ObjectQuotaName is the ResourceQuota by which the agent bounds how many objects a peer may
// have in one namespace of this cluster.
const ObjectQuotaName = "liqo-resource-broker-objects"

// ObjectLimits bound what is in one namespace, as a ResourceQuota does: count/configmaps,
// requests.storage. Empty limits bound nothing.
type ObjectLimits struct {
	// Offloaded is for each namespace that a consumer has offloaded here.
	Offloaded corev1.ResourceList
	// Tenant is for each tenant namespace that the agent has made.
	Tenant corev1.ResourceList
}

// BoundsObjects reports whether KeepObjectQuotas may keep a quota in the namespace.
func BoundsObjects(ns client.Object) bool { return isTenant(ns) || ConsumerOf(ns) != "" }

// isTenant reports whether the agent made the namespace for a peering.
func isTenant(ns client.Object) bool {
	_, tenant := ns.GetLabels()[consts.TenantNamespaceLabel]
	return tenant && object.Ours(ns)
}

// ObjectQuotas returns the limits of each namespace. Like the policies, they hold for peers
// whose tenant namespace the agent has made.
func ObjectQuotas(namespaces []corev1.Namespace, limits ObjectLimits) map[string]corev1.ResourceList {
	guarded := map[string]bool{}
	for i := range namespaces {
		if isTenant(&namespaces[i]) {
			guarded[object.PeerOf(namespaces[i].Labels)] = true
		}
	}
	quotas := map[string]corev1.ResourceList{}
	for i := range namespaces {
		ns := &namespaces[i]
		switch {
		case ns.DeletionTimestamp != nil:
		case isTenant(ns):
			quotas[ns.Name] = limits.Tenant
		case guarded[ConsumerOf(ns)]:
			quotas[ns.Name] = limits.Offloaded
		}
	}
	return quotas
}

// KeepObjectQuotas writes the quota of every namespace in which a peer may create objects. A
// ResourceQuota of that name that somebody else made is left alone.
func (g *Guard) KeepObjectQuotas(ctx context.Context, limits ObjectLimits) error {
	var namespaces corev1.NamespaceList
	if err := g.opts.Client.List(ctx, &namespaces, client.HasLabels{consts.RemoteClusterID}); err != nil {
		return err
	}
	for name, hard := range ObjectQuotas(namespaces.Items, limits) {
		if err := g.keepQuota(ctx, name, ObjectQuotaName, hard); err != nil {
			return err
		}
	}
	return nil
}
