package guard

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// ConsumerOf returns the cluster that offloaded the namespace to this one, "" for any other
// namespace. Unlike OffloadedFor, it requires the annotation with which Liqo marks such a
// namespace.
func ConsumerOf(ns client.Object) string {
	if ns.GetAnnotations()[consts.RemoteNamespaceManagedByAnnotationKey] == "" {
		return ""
	}
	return object.PeerOf(ns.GetLabels())
}

// keepQuota creates or updates a ResourceQuota of the agent. If hard is empty, it deletes the
// ResourceQuota.
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
