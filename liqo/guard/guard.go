// Package guard decides what other clusters may have and do in this cluster.
//
// It grants the resources of slices according to their reservations, and allows certificates
// only for placements that have not ended. It writes the rights of each consumer's identities to
// where the admission policies read them, and limits the number of objects that a consumer may
// create. It also finds, cordons, deletes and retries the pods that consumers run here.
package guard

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Options configure a Guard.
type Options struct {
	ClusterID            string
	InstructionNamespace string
	// Client reads from a cache. Reader reads from the API server.
	Client client.Client
	Reader client.Reader
	// Elsewhere is true if the guard also covers tenant namespaces that the agent did not make:
	// it then refuses certificates for slices in them that have no reservation.
	Elsewhere bool
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Guard decides what consumers may have and do in this cluster. It writes its decisions to the
// objects that Liqo, Kubernetes and the admission policies read.
type Guard struct {
	opts Options

	mu sync.Mutex // guards resends
	// resends holds the replicated slices that are incomplete.
	resends map[types.NamespacedName]resend
}

// New returns a Guard. Only the options Elsewhere and Log may be left unset.
func New(o Options) *Guard { return &Guard{opts: o, resends: map[types.NamespacedName]resend{}} }

// TenantNamespaceOf returns the name of the peer's tenant namespace, "" if there is none.
func (g *Guard) TenantNamespaceOf(ctx context.Context, peer string) (string, error) {
	ns, err := object.FindTenantNamespace(ctx, g.opts.Client, peer)
	if ns == nil || err != nil {
		return "", err
	}
	return ns.Name, nil
}

// Disown removes the label of the remote cluster from a NamespaceMap that a peer replicated to
// this cluster. It reports whether the map had the label.
//
// Only this cluster's own maps should have that label, because this cluster's virtual kubelets use
// every map with that label in the peer's tenant namespace. A consumer that is also a provider of
// this cluster could otherwise make the virtual kubelets reflect any namespace. Replicas do not
// need the label: other components identify them by their origin.
func Disown(namespaceMap metav1.Object) bool {
	labels := namespaceMap.GetLabels()
	if _, has := labels[consts.RemoteClusterID]; !has {
		return false
	}
	delete(labels, consts.RemoteClusterID)
	namespaceMap.SetLabels(labels)
	return true
}

// DisownMaps applies Disown to the NamespaceMaps that a consumer has already replicated. It is
// needed for maps that are older than the agent's webhook, which applies Disown to new ones. It
// does nothing in a tenant namespace that the agent did not make.
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
