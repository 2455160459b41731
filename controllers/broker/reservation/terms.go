package reservation

import (
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// termsOf returns the constraints, pod shapes and data of a reservation, as a user would have written them.
func termsOf(v *broker.ReservationView) brokerv1alpha1.Requirements {
	var req v1.ReservationRequest
	wire.FromTerms(v.Demands(), &req)
	// The book's values were read from a request, so the conversion cannot fail.
	out, _ := wire.ToTermsSpec(&req)
	return out
}
