package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "broker.fluidos.eu", Version: "v1alpha1"}

	// SchemeBuilder collects the kinds of this package.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme registers the kinds of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func init() {
	SchemeBuilder.Register(
		&ClusterAdvertisement{}, &ClusterAdvertisementList{},
		&Reservation{}, &ReservationList{},
		&BrokerConfig{}, &BrokerConfigList{},
		&ClusterMailbox{}, &ClusterMailboxList{},
	)
}
