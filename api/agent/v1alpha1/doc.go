// Package v1alpha1 holds the CRDs of a member cluster: what the cluster advertises
// (Advertisement), to whom it lends (LendingPolicy), what its users request (ResourceRequest, Quote,
// BurstPolicy), and what the agent carries out for the broker, as the consumer
// (ReservationInstruction) and as the provider (ProviderInstruction).
//
// +kubebuilder:object:generate=true
// +groupName=liqo.io
package v1alpha1
