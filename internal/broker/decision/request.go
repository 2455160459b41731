package decision

import (
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Request is what a reservation requires of a provider. Its requirements must have passed
// requirements.Read.
type Request struct {
	// Requester is the ID of the requesting cluster. It is never its own provider.
	Requester string
	// Amounts is the total to reserve. Amounts of zero or less require nothing.
	Amounts quantity.Amounts
	// PodShapes are pods that must fit on the provider's nodes at the same time. Amounts includes
	// their total.
	PodShapes []brokerv1alpha1.PodShape
	// Exclude lists the clusters that were already tried for this request. Avoid lists those that
	// failed it, and may serve it only if no other cluster can.
	Exclude []string
	Avoid   []string
	// Constraints restricts the providers; nil for no restriction. Its Affinity and AntiAffinity
	// are ignored: Near and Apart replace them.
	Constraints *brokerv1alpha1.Constraints
	// Near lists the only clusters that may provide, empty for no restriction; Apart lists
	// clusters that may not. The broker computes both from the affinity and anti-affinity of the
	// request, and from the providers of the requester's other reservations.
	Near  []string
	Apart []string
	// Data is the data of the workload, nil for none. Its storage and transfer are part of the
	// cost.
	Data *brokerv1alpha1.DataVolume
	// Duration is how long the reservation will be held; 0 is billed as requirements.UnboundedFor.
	Duration time.Duration
	// Left is how long the reservation will be held from now on, 0 for no bound. Nodes that a candidate
	// creates must be Ready earlier.
	Left time.Duration
	// Currency is the currency in which costs are compared. Empty means the currency of the highest
	// accepted price or, without one, the currency that most candidates use.
	Currency string
	// Weights must be valid; nil means the default preset.
	Weights Weights
}
