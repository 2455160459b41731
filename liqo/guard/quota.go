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

// ConsumerOf returns the cluster for which Liqo made the namespace, "" for any other namespace.
func ConsumerOf(ns client.Object) string {
	if ns.GetAnnotations()[consts.RemoteNamespaceManagedByAnnotationKey] == "" {
		return ""
	}
	return object.PeerOf(ns.GetLabels())
}

// keepQuota creates or updates a ResourceQuota of the agent; with an empty hard it deletes it.
func (g *Guard) keepQuota(ctx context.Context, namespace, name string, hard corev1.ResourceList) error {
	quota := &corev1.ResourceQuota{}
	// The agent keeps no cache of quotas.
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
