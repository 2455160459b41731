package object

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// ViewOf returns the facts about an object that a plan depends on.
func ViewOf(obj metav1.Object) plan.ObjectView {
	return plan.ObjectView{Exists: true, Ours: Ours(obj), Terminating: obj.GetDeletionTimestamp() != nil}
}

// Get reads an object into the given one. It returns false, without an error, if the object does
// not exist.
func Get(ctx context.Context, r client.Reader, namespace, name string, into client.Object) (bool, error) {
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// FindTenantNamespace returns the tenant namespace for a peer, nil if there is none. Like Liqo, it
// finds the namespace by its labels; the name does not matter.
func FindTenantNamespace(ctx context.Context, r client.Reader, peer string) (*corev1.Namespace, error) {
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

// ViewOfNamespace returns the view of a namespace. ns is nil if the namespace does not exist.
func ViewOfNamespace(ns *corev1.Namespace) plan.ObjectView {
	if ns == nil {
		return plan.ObjectView{}
	}
	return ViewOf(ns)
}

// ListOfPeer lists the metadata of the objects of a kind that belong to a peer according to PeerOf.
// It returns none if the CRD is not installed. NamespaceMaps that guard.Disown has changed no
// longer have the peer's label; ListOfPeer finds them by their origin.
func ListOfPeer(ctx context.Context, r client.Reader, kind schema.GroupVersionKind, peer string) ([]metav1.PartialObjectMetadata, error) {
	items, err := listLabelled(ctx, r, kind, client.MatchingLabels{consts.RemoteClusterID: peer})
	if err != nil || kind.Kind != "NamespaceMap" {
		return items, err
	}
	disowned, err := listLabelled(ctx, r, kind, client.MatchingLabels{OriginLabel: peer})
	for i := range disowned {
		if disowned[i].Labels[consts.RemoteClusterID] != peer {
			items = append(items, disowned[i])
		}
	}
	return items, err
}

func listLabelled(ctx context.Context, r client.Reader, kind schema.GroupVersionKind, labels client.MatchingLabels) ([]metav1.PartialObjectMetadata, error) {
	list := NewMetadataList(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := r.List(ctx, list, labels)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s objects of %v: %w", kind.Kind, labels, err)
	}
	return list.Items, nil
}

// NewMetadataList returns an empty list of a kind, into which a client reads only metadata.
func NewMetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}

// NewMetadata returns an empty object of a kind, of which a client reads only the metadata.
func NewMetadata(kind schema.GroupVersionKind) client.Object {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// Create creates obj. It returns nil if an object of that name already exists: then the cache did
// not show that object yet, and the next reconciliation handles it.
func Create(ctx context.Context, c client.Writer, obj client.Object) error {
	return client.IgnoreAlreadyExists(c.Create(ctx, obj))
}

// Delete deletes exactly the given object, identified by its UID. A later object with the same name
// stays. It returns nil if the object is already gone.
func Delete(ctx context.Context, c client.Writer, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return nil // another object now has this name
	}
	return client.IgnoreNotFound(err)
}

// DeleteOurs deletes those objects of a kind that the agent made for a peer.
func DeleteOurs(ctx context.Context, r client.Reader, c client.Writer, kind schema.GroupVersionKind, peer string) error {
	items, err := ListOfPeer(ctx, r, kind, peer)
	if err != nil {
		return err
	}
	for i := range items {
		if item := client.Object(&items[i]); Ours(item) && item.GetDeletionTimestamp() == nil {
			item.GetObjectKind().SetGroupVersionKind(kind)
			if err := Delete(ctx, c, item); err != nil {
				return err
			}
		}
	}
	return nil
}
