package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is the group and version of every CRD in this package.
	GroupVersion = schema.GroupVersion{Group: "liqo.io", Version: "v1alpha1"}

	// SchemeBuilder collects the types of this package.
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}

	// AddToScheme registers the types of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func init() {
	SchemeBuilder.Register(
		&Advertisement{}, &AdvertisementList{},
		&ResourceRequest{}, &ResourceRequestList{},
		&ReservationInstruction{}, &ReservationInstructionList{},
		&ProviderInstruction{}, &ProviderInstructionList{},
		&LendingPolicy{}, &LendingPolicyList{},
		&Quote{}, &QuoteList{},
		&BurstPolicy{}, &BurstPolicyList{},
	)
}
