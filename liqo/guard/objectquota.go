package guard

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// ObjectQuotaName is the name of the ResourceQuota with which the agent bounds how many objects
// a peer may have in one namespace of this cluster.
const ObjectQuotaName = "liqo-resource-broker-objects"

// ObjectLimits bound the content of one namespace in the terms of a ResourceQuota, such as
// count/configmaps or requests.storage. Empty limits bound nothing.
type ObjectLimits struct {
	// Offloaded applies to each namespace that a consumer has offloaded here.
	Offloaded corev1.ResourceList
	// Tenant applies to each tenant namespace that the agent made.
	Tenant corev1.ResourceList
	// Probe names a ResourceQuota whose status shows the agent which kinds Kubernetes counts;
	// empty if there is none.
	Probe types.NamespacedName
}

// withoutUncounted returns the limits without those kinds in the probe that Kubernetes does not count
// yet. Kubernetes refuses every object of a limited kind until it counts that kind.
func (l ObjectLimits) withoutUncounted(probe *corev1.ResourceQuota) ObjectLimits {
	uncounted := func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, probed := probe.Spec.Hard[name]
		_, counted := probe.Status.Used[name]
		return probed && !counted
	}
	l.Offloaded, l.Tenant = maps.Clone(l.Offloaded), maps.Clone(l.Tenant)
	maps.DeleteFunc(l.Offloaded, uncounted)
	maps.DeleteFunc(l.Tenant, uncounted)
	return l
}

// BoundsObjects reports whether KeepObjectQuotas may keep a quota in the namespace.
func BoundsObjects(ns client.Object) bool { return isTenant(ns) || ConsumerOf(ns) != "" }

// isTenant reports whether the agent made the namespace for a peering.
func isTenant(ns client.Object) bool {
	_, tenant := ns.GetLabels()[consts.TenantNamespaceLabel]
	return tenant && object.Ours(ns)
}

// ObjectQuotas returns the limits of each namespace. Like the policies, they apply only to peers
// whose tenant namespace the agent made.
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

// KeepObjectQuotas writes the quota of every namespace in which a peer may create objects. It
// does not change a ResourceQuota of that name that the agent did not make.
func (g *Guard) KeepObjectQuotas(ctx context.Context, limits ObjectLimits) error {
	if limits.Probe.Name != "" {
		probe := &corev1.ResourceQuota{}
		if _, err := object.Get(ctx, g.opts.Reader, limits.Probe.Namespace, limits.Probe.Name, probe); err != nil {
			return err
		}
		limits = limits.withoutUncounted(probe)
	}
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
