package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "liqo.io", Version: "v1alpha1"}

	// SchemeBuilder collects the kinds of this package.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme registers the kinds of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func init() {
	SchemeBuilder.Register(
		&Advertisement{}, &AdvertisementList{},
		&ResourceRequest{}, &ResourceRequestList{},
		&ReservationInstruction{}, &ReservationInstructionList{},
		&ProviderInstruction{}, &ProviderInstructionList{},
		&LendingPolicy{}, &LendingPolicyList{},
	)
}
