// Package v1alpha1 holds the kinds of the broker cluster: what every cluster
// offers (ClusterAdvertisement), what is lent to whom (Reservation), how the
// broker decides (BrokerConfig), and what agents say to it where they do not
// reach its REST API (ClusterMailbox).
//
// +kubebuilder:object:generate=true
// +groupName=broker.fluidos.eu
package v1alpha1
