package guard

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// ObjectQuotaName is the name of the ResourceQuota with which the agent limits how many objects a
// peer may have in one namespace of this cluster.
const ObjectQuotaName = "liqo-resource-broker-objects"

// ObjectLimits are limits for the content of one namespace, in the syntax of a ResourceQuota, for
// example count/configmaps or requests.storage. Resources without an entry are not limited.
type ObjectLimits struct {
	// Offloaded applies to each namespace that a consumer has offloaded here.
	Offloaded corev1.ResourceList
	// Tenant applies to each tenant namespace that the agent made.
	Tenant corev1.ResourceList
	// Probe is the name of a ResourceQuota that limits the same kinds in a namespace of the agent. Its
	// status shows which of these kinds Kubernetes already counts. It is empty if there is no such
	// quota.
	Probe types.NamespacedName
}

// withoutUncounted returns the limits without the kinds that Kubernetes does not count yet, as the
// probe's status shows. A limit on such a kind would make Kubernetes refuse every new object of the
// kind.
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

// BoundsObjects reports whether KeepObjectQuotas may limit the namespace: either it is a tenant
// namespace that the agent made, or a consumer has offloaded it here.
func BoundsObjects(ns client.Object) bool { return isTenant(ns) || ConsumerOf(ns) != "" }

func isTenant(ns client.Object) bool {
	_, tenant := ns.GetLabels()[consts.TenantNamespaceLabel]
	return tenant && object.Ours(ns)
}

// ObjectQuotas returns the limits of the ResourceQuota for each namespace that gets one, by the
// name of the namespace. Like the admission policies, the limits apply only to peers whose tenant
// namespace the agent made.
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

// KeepObjectQuotas creates or updates the ResourceQuota of every namespace in ObjectQuotas, or
// deletes it if the namespace has no limits. A ResourceQuota with the same name that someone else
// made stays unchanged.
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

// ConsumerOf returns the cluster that offloaded the namespace to this one, "" for any other
// namespace. Unlike OffloadedFor, it requires the annotation with which Liqo marks such a
// namespace.
func ConsumerOf(ns client.Object) string {
	if ns.GetAnnotations()[consts.RemoteNamespaceManagedByAnnotationKey] == "" {
		return ""
	}
	return object.PeerOf(ns.GetLabels())
}

// keepQuota creates or updates a ResourceQuota of the agent, or deletes it if hard is empty.
func (g *Guard) keepQuota(ctx context.Context, namespace, name string, hard corev1.ResourceList) error {
	quota := &corev1.ResourceQuota{}
	// This bypasses the cache, because the agent does not cache ResourceQuotas.
	found, err := object.Get(ctx, g.opts.Reader, namespace, name, quota)
	if err != nil {
		return err
	}
	switch {
	case !found && len(hard) == 0, found && !object.Ours(quota):
		return nil
	case !found:
		return object.Create(ctx, g.opts.Client, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard},
		})
	case len(hard) == 0:
		return object.Delete(ctx, g.opts.Client, quota)
	case equality.Semantic.DeepEqual(quota.Spec.Hard, hard):
		return nil
	}
	quota.Spec.Hard = hard
	return g.opts.Client.Update(ctx, quota)
}
