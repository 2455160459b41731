package liqo

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Concern names the instructions that must be reconciled after a change of a watched object.
type Concern struct {
	// Placement selects the instruction of the placement to which the object belongs; "" if there is none.
	Placement string
	// Peer selects every instruction for the peer with this cluster ID.
	Peer string
	// Namespace selects every instruction that offloads this namespace.
	Namespace string
}

// ConsumerWatches returns the objects whose changes wake the controller that calls Consume.
func (p *Peering) ConsumerWatches() []client.Object {
	return append([]client.Object{
		&corev1.Namespace{}, &corev1.Node{},
		&authv1beta1.Identity{}, &authv1beta1.ResourceSlice{},
		&offloadingv1beta1.VirtualNode{}, &offloadingv1beta1.NamespaceOffloading{},
		object.NewMetadata(authv1beta1.GroupVersion.WithKind("Renew")),
		object.NewMetadata(offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap")),
		&liqov1beta1.ForeignCluster{},
	}, p.network.Watches()...)
}

// VirtualNodes selects Liqo's virtual nodes, the only nodes that Consume reads. The cache
// need not hold the other nodes, of which a cluster may have thousands.
func VirtualNodes() labels.Selector {
	return labels.SelectorFromSet(labels.Set{consts.TypeLabel: consts.TypeNode})
}

// ProviderWatches returns the objects whose changes wake the controller that calls Provide.
func (p *Peering) ProviderWatches() []client.Object {
	return append([]client.Object{
		&corev1.Namespace{},
		&authv1beta1.Tenant{}, &authv1beta1.ResourceSlice{},
		object.NewMetadata(authv1beta1.GroupVersion.WithKind("Renew")),
		object.NewMetadata(offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap")),
		object.NewMetadata(offloadingv1beta1.SchemeGroupVersion.WithKind("Quota")),
		object.NewMetadata(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPod")),
		object.NewMetadata(liqov1beta1.GroupVersion.WithKind("ForeignCluster")),
	}, p.network.Watches()...)
}

// NewSlice returns an empty ResourceSlice, for the watch of the slices that Grant answers.
func NewSlice() client.Object { return &authv1beta1.ResourceSlice{} }

// MetadataOnly reports whether a watch for obj needs only metadata.
func MetadataOnly(obj client.Object) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}

// ConcernOf returns the instructions that a change of a watched object concerns. All fields
// are empty if it concerns none.
func ConcernOf(obj client.Object) Concern {
	labels := obj.GetLabels()
	switch o := obj.(type) {
	case *corev1.Node:
		if labels[consts.TypeLabel] != consts.TypeNode {
			return Concern{}
		}
		return Concern{Placement: o.Name, Peer: object.PeerOf(labels)}
	case *authv1beta1.ResourceSlice, *offloadingv1beta1.VirtualNode:
		return Concern{Placement: obj.GetName(), Peer: object.PeerOf(labels)}
	case *liqov1beta1.ForeignCluster:
		return Concern{Peer: o.Name}
	case *offloadingv1beta1.NamespaceOffloading:
		return Concern{Namespace: o.Namespace}
	case *corev1.Namespace:
		if object.IsTenantNamespace(o) {
			return Concern{Peer: object.PeerOf(labels)}
		}
		return Concern{Namespace: o.Name}
	}
	if node := labels[object.OffloadedPodLabel]; node != "" {
		return Concern{Placement: node}
	}
	owners := obj.GetOwnerReferences()
	if i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "ResourceSlice" }); i >= 0 {
		return Concern{Placement: owners[i].Name, Peer: object.PeerOf(labels)}
	}
	return Concern{Peer: object.PeerOf(labels)}
}
