// Package v1alpha1 holds the CRDs of the broker cluster: what every cluster offers
// (ClusterAdvertisement), who lends to whom (Reservation), how the broker decides
// (BrokerConfig), and the requests of agents that cannot reach its REST API (ClusterMailbox).
//
// +kubebuilder:object:generate=true
// +groupName=broker.fluidos.eu
package v1alpha1
