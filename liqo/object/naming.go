package object

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// SliceClass is the class of every ResourceSlice with a reservation. Liqo leaves the resources of
// an unknown class to others; here, the guard grants them.
const SliceClass = "broker"

// OffloadingName is the only name of a NamespaceOffloading that Liqo recognizes.
const OffloadingName = consts.DefaultNamespaceOffloadingName

// OffloadedPodLabel holds the virtual node's name. The virtual kubelet sets it on a ShadowPod,
// and so on the pod.
const OffloadedPodLabel = "offloading.liqo.io/nodename"

// ServerAnnotation lists the provider's API servers that this cluster's Liqo may use, separated
// by spaces. It is on tenant namespaces that the agent made. The chart's policy for Identities
// reads it.
const ServerAnnotation = "broker.fluidos.eu/api-server"

// Labels that Liqo puts on replicated objects.
const (
	ReplicatedLabel  = consts.ReplicationStatusLabel
	OriginLabel      = consts.ReplicationOriginLabel
	DestinationLabel = consts.ReplicationDestinationLabel
)

// TenantNamespaceName returns the name that Liqo and the agent give to the namespace for a peer.
// A namespace with another name is recognized by its labels.
func TenantNamespaceName(peer string) string { return "liqo-tenant-" + peer }

// IdentityName returns the name of this cluster's identity at a provider.
func IdentityName(provider string) string { return "controlplane-" + provider }

// AddToScheme registers the Liqo kinds that the agent reads or writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		authv1beta1.AddToScheme, liqov1beta1.AddToScheme, offloadingv1beta1.AddToScheme,
		networkingv1beta1.AddToScheme, ipamv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// PeerOf returns the cluster ID of the peer to which an object of Liqo belongs, "" if its labels
// name none. A disowned replica belongs to its origin.
func PeerOf(labels map[string]string) string {
	if peer := labels[consts.RemoteClusterID]; peer != "" {
		return peer
	}
	return labels[OriginLabel]
}

// Ours reports whether the agent made the object. For a replica the result is meaningless,
// because its labels come from the peer.
func Ours(obj metav1.Object) bool {
	return obj.GetLabels()[agentv1alpha1.ManagedByLabel] == agentv1alpha1.ManagedByValue
}

// OurLabels returns the labels of an object that the agent makes for a peer.
func OurLabels(peer string) map[string]string {
	return map[string]string{
		agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue,
		consts.RemoteClusterID:       peer,
	}
}

// TenantNamespaceLabels returns the labels of a tenant namespace that the agent makes for a peer.
func TenantNamespaceLabels(peer string) map[string]string {
	labels := OurLabels(peer)
	labels[consts.TenantNamespaceLabel] = "true"
	// Virtual kubelets run here. Liqo's own namespaces are privileged, too.
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	return labels
}

// IsTenantNamespace reports whether ns is the tenant namespace of a peer.
func IsTenantNamespace(ns metav1.Object) bool {
	return ns.GetLabels()[consts.TenantNamespaceLabel] != ""
}

// OwnNodes selects the nodes of this cluster that are not virtual.
func OwnNodes() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: consts.TypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{consts.TypeNode},
		}},
	}}}
}

// ControlPlaneGroup is the group of the identities with which other clusters' Liqo replicates
// objects here. It has no members from this cluster.
var ControlPlaneGroup = authentication.OrganizationControlPlaneCSR()

// Replicated reports whether another cluster's Liqo replicated the object here.
func Replicated(obj metav1.Object) bool { return obj.GetLabels()[ReplicatedLabel] == "true" }

// RemoteTenantCSRLabel marks the CertificateSigningRequests that Liqo makes for other
// clusters and approves itself.
const RemoteTenantCSRLabel = "liqo.io/remote-tenant-csr"

// Types of Liqo, for callers that do not import Liqo.
type (
	// ResourceSlice is Liqo's.
	ResourceSlice = authv1beta1.ResourceSlice
	// ResourceSliceSpec is Liqo's.
	ResourceSliceSpec = authv1beta1.ResourceSliceSpec
)

// Names of the Secrets that the agent uses. KeysSecretName is in Liqo's namespace, the others are
// in a tenant namespace.
const (
	NonceSecretName       = "liqo-nonce"
	CertificateSecretName = "liqo-remote-certificate"
	KeysSecretName        = consts.AuthKeysSecretName
	GatewayKeysName       = "liqo-gateway-keys"
)
