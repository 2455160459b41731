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

// SliceClass is the class of every ResourceSlice that a reservation stands behind.
// Liqo leaves the resources of an unknown class to others: to the grant of this
// package.
const SliceClass = "broker"

// OffloadingName is the only name of a NamespaceOffloading that Liqo heeds.
const OffloadingName = consts.DefaultNamespaceOffloadingName

// OffloadedPodLabel is put by the virtual kubelet on a ShadowPod, and so on its pod: the
// virtual node's name.
const OffloadedPodLabel = "offloading.liqo.io/nodename"

// ServerAnnotation, on a tenant namespace that the agent made, lists the API servers of the
// provider that this cluster's Liqo may use, separated by spaces. The chart's policy for
// Identities reads it.
const ServerAnnotation = "broker.fluidos.eu/api-server"

// Labels that Liqo puts on what it replicates.
const (
	ReplicatedLabel  = consts.ReplicationStatusLabel
	OriginLabel      = consts.ReplicationOriginLabel
	DestinationLabel = consts.ReplicationDestinationLabel
)

// TenantNamespaceName is the name that Liqo, and the agent, give to the namespace
// for a peer. One with another name is recognised by its labels.
func TenantNamespaceName(peer string) string { return "liqo-tenant-" + peer }

// IdentityName names this cluster's identity at a provider.
func IdentityName(provider string) string { return "controlplane-" + provider }

// AddToScheme registers the kinds of Liqo that the agent reads or writes.
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

// PeerOf returns the cluster ID of the peer that an object of Liqo's belongs to,
// "" if it says none. A replica that was disowned says where it came from.
func PeerOf(labels map[string]string) string {
	if peer := labels[consts.RemoteClusterID]; peer != "" {
		return peer
	}
	return labels[OriginLabel]
}

// Ours reports whether the agent made the object. A replica carries the labels that
// the peer gave it, so there it means nothing.
func Ours(obj metav1.Object) bool {
	return obj.GetLabels()[agentv1alpha1.ManagedByLabel] == agentv1alpha1.ManagedByValue
}

func OurLabels(peer string) map[string]string {
	return map[string]string{
		agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue,
		consts.RemoteClusterID:       peer,
	}
}

func TenantNamespaceLabels(peer string) map[string]string {
	labels := OurLabels(peer)
	labels[consts.TenantNamespaceLabel] = "true"
	// Virtual kubelets run here, and Liqo's own namespaces are as open.
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	return labels
}

// IsTenantNamespace reports whether a namespace stands for a peer.
func IsTenantNamespace(ns metav1.Object) bool {
	return ns.GetLabels()[consts.TenantNamespaceLabel] != ""
}

// OwnNodes selects the nodes of this cluster that are none of Liqo's.
func OwnNodes() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: consts.TypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{consts.TypeNode},
		}},
	}}}
}

// ControlPlaneGroup is the group of the identities with which the Liqo of other clusters
// replicates objects here. Nobody of this cluster is in it.
var ControlPlaneGroup = authentication.OrganizationControlPlaneCSR()

// Replicated reports whether another cluster's Liqo keeps the object here.
func Replicated(obj metav1.Object) bool { return obj.GetLabels()[ReplicatedLabel] == "true" }

// RemoteTenantCSRLabel marks the CertificateSigningRequests that Liqo makes for other
// clusters and approves itself.
const RemoteTenantCSRLabel = "liqo.io/remote-tenant-csr"

// ResourceSlice and its spec are Liqo's own, for callers that handle one without knowing
// Liqo.
type (
	ResourceSlice     = authv1beta1.ResourceSlice
	ResourceSliceSpec = authv1beta1.ResourceSliceSpec
)

// Names of Secrets in a tenant namespace that the agent touches.
const (
	NonceSecretName       = "liqo-nonce"
	CertificateSecretName = "liqo-remote-certificate"
	KeysSecretName        = consts.AuthKeysSecretName
	GatewayKeysName       = "liqo-gateway-keys"
)
