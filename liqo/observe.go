package liqo

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func view(obj metav1.Object) ObjectView {
	return ObjectView{Exists: true, Ours: Ours(obj), Terminating: obj.GetDeletionTimestamp() != nil}
}

// get returns false where there is no such object.
func get(ctx context.Context, r client.Reader, namespace, name string, into client.Object) (bool, error) {
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// tenantNamespace returns the namespace for a peer, nil if there is none. Liqo
// finds it by labels, whatever its name.
func tenantNamespace(ctx context.Context, r client.Reader, peer string) (*corev1.Namespace, error) {
	var list corev1.NamespaceList
	if err := r.List(ctx, &list, client.MatchingLabels{consts.RemoteClusterID: peer}, client.HasLabels{consts.TenantNamespaceLabel}); err != nil {
		return nil, fmt.Errorf("tenant namespace of %q: %w", peer, err)
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	}
	return nil, fmt.Errorf("tenant namespace of %q: %d namespaces carry its labels, Liqo allows one", peer, len(list.Items))
}

func namespaceView(ns *corev1.Namespace) ObjectView {
	if ns == nil {
		return ObjectView{}
	}
	return view(ns)
}

// keyMaxAge is how long the key pair of Liqo is believed. It changes when somebody
// deletes it; all placements of a pair must see the same.
const keyMaxAge = 10 * time.Second

// clusterKey is the key pair of this cluster's Liqo, the public one in DER and PEM.
type clusterKey struct {
	der, pem []byte
	private  []byte
	readAt   time.Time
}

func (p *Peering) clusterKey(ctx context.Context) (*clusterKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Clock.Now()
	if p.key != nil && now.Sub(p.key.readAt) < keyMaxAge {
		return p.key, nil
	}
	var secret corev1.Secret
	if err := p.opts.Reader.Get(ctx, client.ObjectKey{Namespace: p.opts.LiqoNamespace, Name: keysSecretName}, &secret); err != nil {
		return nil, fmt.Errorf("key pair of Liqo: %w", err)
	}
	public := secret.Data[consts.PublicKeyField]
	block, _ := pem.Decode(public)
	if block == nil {
		return nil, fmt.Errorf("key pair of Liqo: Secret %q holds no public key in PEM", keysSecretName)
	}
	p.key = &clusterKey{der: block.Bytes, pem: public, private: secret.Data[consts.PrivateKeyField], readAt: now}
	return p.key, nil
}

func (k *clusterKey) parsePrivate() (any, error) {
	block, _ := pem.Decode(k.private)
	if block == nil {
		return nil, fmt.Errorf("key pair of Liqo: Secret %q holds no private key in PEM", keysSecretName)
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

// others are the other instructions that concern a peer, read past the cache: a
// decision to leave something to them must not rest on old news.
type others struct {
	consumer, provider int
}

func (p *Peering) others(ctx context.Context, self client.Object, peer string) (o others, err error) {
	var consumer agentv1alpha1.ReservationInstructionList
	here := client.InNamespace(p.opts.InstructionNamespace)
	if err := p.opts.Reader.List(ctx, &consumer, here, client.MatchingFields{"spec.targetClusterID": peer}); err != nil {
		return o, err
	}
	for i := range consumer.Items {
		if consumer.Items[i].UID != self.GetUID() {
			o.consumer++
		}
	}
	var provider agentv1alpha1.ProviderInstructionList
	if err := p.opts.Reader.List(ctx, &provider, here, client.MatchingFields{"spec.requesterClusterID": peer}); err != nil {
		return o, err
	}
	for i := range provider.Items {
		if provider.Items[i].UID != self.GetUID() {
			o.provider++
		}
	}
	return o, nil
}

// Kinds that hold a tenant namespace.
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

// home reads what is left of a peer, past the cache.
func (p *Peering) home(ctx context.Context, peer string, ns *corev1.Namespace, o others) (HomeView, error) {
	h := HomeView{Namespace: namespaceView(ns), Needed: o.consumer+o.provider > 0}
	if h.Needed {
		return h, nil
	}
	nodes := 0
	for _, kind := range rootKinds {
		items, err := p.ofPeer(ctx, kind, peer)
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
	if err := p.homeNetwork(ctx, peer, &h); err != nil {
		return h, err
	}
	for _, kind := range dependentKinds {
		items, err := p.ofPeer(ctx, kind, peer)
		if err != nil {
			return h, err
		}
		h.Dependents += len(items)
		if kind.Kind == "NamespaceMap" && nodes == 0 {
			h.StrayMap = hasStray(items, peer)
		}
	}
	var fc metav1.PartialObjectMetadata
	fc.SetGroupVersionKind(liqov1beta1.GroupVersion.WithKind("ForeignCluster"))
	var err error
	h.ForeignCluster, err = get(ctx, p.opts.Reader, "", peer, &fc)
	return h, err
}

// isRoot says whether the object was made for a purpose of its own and stays.
func isRoot(obj *metav1.PartialObjectMetadata) bool {
	return obj.DeletionTimestamp == nil && len(obj.OwnerReferences) == 0
}

func hasStray(maps []metav1.PartialObjectMetadata, peer string) bool {
	for i := range maps {
		if m := &maps[i]; m.DeletionTimestamp == nil && m.Labels[destinationLabel] == peer && !Replicated(m) {
			return true
		}
	}
	return false
}

// ofPeer lists the objects of a kind that belong to the peer, as PeerOf says; none if
// the kind is not installed. Of NamespaceMaps those that it replicated here carry its
// label no more.
func (p *Peering) ofPeer(ctx context.Context, kind schema.GroupVersionKind, peer string) ([]metav1.PartialObjectMetadata, error) {
	items, err := p.labelled(ctx, kind, client.MatchingLabels{consts.RemoteClusterID: peer})
	if err != nil || kind.Kind != "NamespaceMap" {
		return items, err
	}
	disowned, err := p.labelled(ctx, kind, client.MatchingLabels{originLabel: peer})
	for i := range disowned {
		if disowned[i].Labels[consts.RemoteClusterID] != peer {
			items = append(items, disowned[i])
		}
	}
	return items, err
}

func (p *Peering) labelled(ctx context.Context, kind schema.GroupVersionKind, labels client.MatchingLabels) ([]metav1.PartialObjectMetadata, error) {
	list := metadataList(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := p.opts.Reader.List(ctx, list, labels)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s objects of %v: %w", kind.Kind, labels, err)
	}
	return list.Items, nil
}

// TenantNamespaceOf returns the name of the namespace for a peer, "" if there is none.
func (p *Peering) TenantNamespaceOf(ctx context.Context, peer string) (string, error) {
	ns, err := tenantNamespace(ctx, p.opts.Client, peer)
	if ns == nil || err != nil {
		return "", err
	}
	return ns.Name, nil
}
