package guard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Disown takes off a replicated NamespaceMap the label by which the virtual kubelets of
// this cluster look for their own, and says whether it was there. They heed every map of
// the peer's tenant namespace that carries it, so a peer that this cluster uses as well
// could have them reflect any namespace, and a namespace that is offloaded both ways
// would be reflected to the wrong one. What else works with replicas goes by their
// origin.
func Disown(namespaceMap metav1.Object) bool {
	labels := namespaceMap.GetLabels()
	if _, has := labels[consts.RemoteClusterID]; !has {
		return false
	}
	delete(labels, consts.RemoteClusterID)
	namespaceMap.SetLabels(labels)
	return true
}

// DisownMaps mends the maps that a consumer replicated before there was a webhook that
// does. Tenant namespaces that somebody else made are left as they are.
func (g *Guard) DisownMaps(ctx context.Context, consumer string, ns *corev1.Namespace) error {
	if ns == nil || !object.Ours(ns) {
		return nil
	}
	list := object.NewMetadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMapList"))
	err := g.opts.Client.List(ctx, list, client.InNamespace(ns.Name),
		client.MatchingLabels{object.ReplicatedLabel: "true", object.OriginLabel: consumer}, client.HasLabels{consts.RemoteClusterID})
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, consts.RemoteClusterID)
	for i := range list.Items {
		m := &list.Items[i]
		if err := g.opts.Client.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking label %q off NamespaceMap %q of %q: %w", consts.RemoteClusterID, m.Name, consumer, err)
		}
		g.opts.Log.Info("namespace map disowned", "map", m.Name, "consumer", consumer)
	}
	return nil
}
