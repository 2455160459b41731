// Package v1alpha1 holds the kinds of a member cluster: what the cluster
// advertises (Advertisement), what its users ask for (ResourceRequest) and what
// the agent carries out as consumer (ReservationInstruction) and as provider
// (ProviderInstruction).
//
// +kubebuilder:object:generate=true
// +groupName=liqo.io
package v1alpha1
