// Package object names and finds the Liqo objects of a peering.
package object

import (
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

// SliceClass is the class of the ResourceSlices that the agent makes for reservations. Liqo does
// not grant resources to slices of a class that it does not know; the agent's guard does (see
// guard.Decide).
const SliceClass = "broker"

// OffloadingName is the name that a NamespaceOffloading must have. Liqo ignores others.
const OffloadingName = consts.DefaultNamespaceOffloadingName

// OffloadedPodLabel is the label with the name of the virtual node to which a pod is offloaded.
// The virtual kubelet sets it on the ShadowPod, and Liqo copies it to the pod in the provider's
// cluster.
const OffloadedPodLabel = "offloading.liqo.io/nodename"

// ServerAnnotation lists the addresses of the provider's API server that this cluster's Liqo may
// use, separated by spaces. It is an annotation of tenant namespaces that the agent made. The
// admission policy for Identities in the agent's chart reads it.
const ServerAnnotation = "broker.fluidos.eu/api-server"

// Labels that Liqo puts on replicated objects.
const (
	ReplicatedLabel  = consts.ReplicationStatusLabel
	OriginLabel      = consts.ReplicationOriginLabel
	DestinationLabel = consts.ReplicationDestinationLabel
)

// TenantNamespaceName returns the name that Liqo and the agent give to a new tenant namespace for
// a peer. An existing tenant namespace may have another name: FindTenantNamespace finds it by
// labels.
func TenantNamespaceName(peer string) string { return "liqo-tenant-" + peer }

// IdentityName returns the name of the Identity object with which this cluster's Liqo connects to
// a provider.
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
// name none. An object without the label of a remote cluster belongs to the cluster that
// replicated it.
func PeerOf(labels map[string]string) string {
	if peer := labels[consts.RemoteClusterID]; peer != "" {
		return peer
	}
	return labels[OriginLabel]
}

// Ours reports whether the agent made the object. The result is meaningless for an object that a
// peer's Liqo replicated, because the peer determines its labels.
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
	// Virtual kubelets run in this namespace. Liqo labels the tenant namespaces that it makes in
	// the same way.
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	return labels
}

// IsTenantNamespace reports whether ns is the tenant namespace of a peer.
func IsTenantNamespace(ns metav1.Object) bool {
	return ns.GetLabels()[consts.TenantNamespaceLabel] != ""
}

// ControlPlaneGroup is the user group of the identities with which the Liqo of other clusters
// replicates objects to this cluster. Users of this cluster are not in it.
var ControlPlaneGroup = authentication.OrganizationControlPlaneCSR()

// Replicated reports whether the Liqo of another cluster replicated the object to this cluster.
func Replicated(obj metav1.Object) bool { return obj.GetLabels()[ReplicatedLabel] == "true" }

// RemoteTenantCSRLabel is the label of the CertificateSigningRequests that this cluster's Liqo
// makes for other clusters and approves itself.
const RemoteTenantCSRLabel = "liqo.io/remote-tenant-csr"

// Types of Liqo, for packages that must not import Liqo.
type (
	// ResourceSlice is Liqo's type of the same name.
	ResourceSlice = authv1beta1.ResourceSlice
	// ResourceSliceSpec is Liqo's type of the same name.
	ResourceSliceSpec = authv1beta1.ResourceSliceSpec
)

// Names of the Secrets that the agent uses. KeysSecretName is in Liqo's namespace; the other
// Secrets are in tenant namespaces.
const (
	NonceSecretName       = "liqo-nonce"
	CertificateSecretName = "liqo-remote-certificate"
	KeysSecretName        = consts.AuthKeysSecretName
	GatewayKeysName       = "liqo-gateway-keys"
)
