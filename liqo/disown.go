package liqo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"
)

// ControlPlaneGroup is the group of the identities with which the Liqo of other clusters
// replicates objects here. Nobody of this cluster is in it.
var ControlPlaneGroup = authentication.OrganizationControlPlaneCSR()

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

// disownMaps mends the maps that a consumer replicated before there was a webhook that
// does. Tenant namespaces that somebody else made are left as they are.
func (p *Peering) disownMaps(ctx context.Context, consumer string, ns *corev1.Namespace) error {
	if ns == nil || !Ours(ns) {
		return nil
	}
	list := metadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMapList"))
	err := p.opts.Client.List(ctx, list, client.InNamespace(ns.Name),
		client.MatchingLabels{replicatedLabel: "true", originLabel: consumer}, client.HasLabels{consts.RemoteClusterID})
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, consts.RemoteClusterID)
	for i := range list.Items {
		m := &list.Items[i]
		if err := p.opts.Client.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("taking label %q off NamespaceMap %q of %q: %w", consts.RemoteClusterID, m.Name, consumer, err)
		}
		p.opts.Log.Info("namespace map disowned", "map", m.Name, "consumer", consumer)
	}
	return nil
}
