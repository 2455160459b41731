// Package v1alpha1 holds the kinds of the broker cluster: what every cluster
// offers (ClusterAdvertisement), what is lent to whom (Reservation) and how
// the broker decides (BrokerConfig).
//
// +kubebuilder:object:generate=true
// +groupName=broker.fluidos.eu
package v1alpha1
