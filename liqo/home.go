package liqo

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// clusterKey returns the key pair of this cluster's Liqo. It reads the Secret again when its copy is
// too old.
func (p *Peering) clusterKey(ctx context.Context) (*handshake.ClusterKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Clock.Now()
	if p.key != nil && p.key.IsFresh(now) {
		return p.key, nil
	}
	var secret corev1.Secret
	if err := p.opts.Reader.Get(ctx, client.ObjectKey{Namespace: p.opts.LiqoNamespace, Name: object.KeysSecretName}, &secret); err != nil {
		return nil, fmt.Errorf("key pair of Liqo: %w", err)
	}
	key, err := handshake.ReadClusterKey(&secret, now)
	if err != nil {
		return nil, err
	}
	p.key = key
	return p.key, nil
}

// otherPlacements counts the other instructions for the same peer, by the role that this cluster has
// in them.
type otherPlacements struct {
	consumer, provider int
}

// findOthers counts the instructions for a peer except self. It bypasses the cache: the agent
// keeps the peering as long as there are other instructions, and stale data could lack some of them
// or contain deleted ones.
func (p *Peering) findOthers(ctx context.Context, self client.Object, peer string) (o otherPlacements, err error) {
	var consumer agentv1alpha1.ReservationInstructionList
	here := client.InNamespace(p.opts.InstructionNamespace)
	if err := p.opts.Reader.List(ctx, &consumer, here, client.MatchingFields{"spec.targetClusterID": peer}); err != nil {
		return o, err
	}
	o.consumer = len(slices.DeleteFunc(consumer.Items, func(i agentv1alpha1.ReservationInstruction) bool { return i.UID == self.GetUID() }))
	var provider agentv1alpha1.ProviderInstructionList
	if err := p.opts.Reader.List(ctx, &provider, here, client.MatchingFields{"spec.requesterClusterID": peer}); err != nil {
		return o, err
	}
	o.provider = len(slices.DeleteFunc(provider.Items, func(i agentv1alpha1.ProviderInstruction) bool { return i.UID == self.GetUID() }))
	return o, nil
}

// Kinds of objects that keep a tenant namespace from being deleted. Liqo derives objects of the
// dependent kinds from objects of the root kinds.
var (
	rootKinds = []schema.GroupVersionKind{
		authv1beta1.GroupVersion.WithKind("Tenant"),
		authv1beta1.GroupVersion.WithKind("Identity"),
		authv1beta1.GroupVersion.WithKind("ResourceSlice"),
		offloadingv1beta1.SchemeGroupVersion.WithKind("VirtualNode"),
	}
	dependentKinds = []schema.GroupVersionKind{
		authv1beta1.GroupVersion.WithKind("Renew"),
		offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap"),
		offloadingv1beta1.SchemeGroupVersion.WithKind("Quota"),
	}
)

// viewHome returns which objects for a peer are left in this cluster. It reads them from the API
// server, because the cache may lag behind. ns is the tenant namespace, nil if there is none. o
// counts the other instructions for the peer. If there are any, viewHome reads nothing.
func (p *Peering) viewHome(ctx context.Context, peer string, ns *corev1.Namespace, o otherPlacements) (plan.HomeView, error) {
	h := plan.HomeView{Namespace: object.ViewOfNamespace(ns), Needed: o.consumer+o.provider > 0}
	if h.Needed {
		return h, nil
	}
	nodes := 0
	for _, kind := range rootKinds {
		items, err := object.ListOfPeer(ctx, p.opts.Reader, kind, peer)
		if err != nil {
			return h, err
		}
		for i := range items {
			if isRoot(&items[i]) {
				h.Roots++
			} else {
				h.Dependents++
			}
		}
		if kind.Kind == "VirtualNode" {
			nodes = len(items)
		}
	}
	if err := p.network.CountLeft(ctx, peer, &h); err != nil {
		return h, err
	}
	for _, kind := range dependentKinds {
		items, err := object.ListOfPeer(ctx, p.opts.Reader, kind, peer)
		if err != nil {
			return h, err
		}
		h.Dependents += len(items)
		if kind.Kind == "NamespaceMap" && nodes == 0 {
			h.StrayMap = hasStray(items, peer)
		}
	}
	var err error
	h.ForeignCluster, err = object.Get(ctx, p.opts.Reader, "", peer, object.NewMetadata(liqov1beta1.GroupVersion.WithKind("ForeignCluster")))
	return h, err
}

func isRoot(obj *metav1.PartialObjectMetadata) bool {
	return obj.DeletionTimestamp == nil && len(obj.OwnerReferences) == 0
}

// hasStray reports whether this cluster has a NamespaceMap for the peer that is not being deleted.
func hasStray(maps []metav1.PartialObjectMetadata, peer string) bool {
	for i := range maps {
		if m := &maps[i]; m.DeletionTimestamp == nil && m.Labels[object.DestinationLabel] == peer && !object.Replicated(m) {
			return true
		}
	}
	return false
}

func (p *Peering) ensureNamespace(ctx context.Context, peer string, made failpoint.Point) error {
	err := object.Create(ctx, p.opts.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: object.TenantNamespaceName(peer), Labels: object.TenantNamespaceLabels(peer),
	}})
	failpoint.Hit(made)
	return err
}

// applyHome carries out the actions of planHome.
func (p *Peering) applyHome(ctx context.Context, verb plan.Verb, peer string, ns *corev1.Namespace, deleted failpoint.Point) error {
	switch verb {
	case plan.DeleteNamespace:
		err := object.Delete(ctx, p.opts.Client, ns)
		failpoint.Hit(deleted)
		return err
	case plan.DeleteNamespaceMap:
		namespaceMap := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: peer}}
		return client.IgnoreNotFound(p.opts.Client.Delete(ctx, namespaceMap))
	case plan.DeleteGateways, plan.DeleteConfiguration:
		return p.network.Remove(ctx, verb, peer)
	case plan.DeleteForeignCluster:
		return client.IgnoreNotFound(p.opts.Client.Delete(ctx, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}}))
	}
	return fmt.Errorf("peering with %q: unknown action %q", peer, verb)
}
