package reservation

import (
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// termsOf are the terms of a reservation that an agent asked for.
func termsOf(v *broker.ReservationView) brokerv1alpha1.Terms {
	var req v1.ReservationRequest
	wire.FromTerms(v.Demands(), &req)
	// What the book holds was read from a request, and can be written as one.
	out, _ := wire.ToTermsSpec(&req)
	return out
}
