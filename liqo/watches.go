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

// Concern says which instructions an object concerns.
type Concern struct {
	// Placement is the name of one instruction, if the object is of one.
	Placement string
	// Peer concerns every instruction with that cluster.
	Peer string
	// Namespace concerns every instruction that offloads it.
	Namespace string
}

// ConsumerWatches are the objects whose changes Consume waits for.
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

// VirtualNodes selects the nodes that Consume reads. A cluster may have thousands of others,
// of which no copy needs to be kept.
func VirtualNodes() labels.Selector {
	return labels.SelectorFromSet(labels.Set{consts.TypeLabel: consts.TypeNode})
}

// ProviderWatches are the objects whose changes Provide waits for.
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

// NewSlice returns an empty ResourceSlice, to watch those that Grant answers.
func NewSlice() client.Object { return &authv1beta1.ResourceSlice{} }

// MetadataOnly reports whether a watch returned here needs no more than metadata.
func MetadataOnly(obj client.Object) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}

// ConcernOf says whom a watched object concerns; nobody where all fields are empty.
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
