package decision

import (
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Request is what a reservation asks of its next provider. Its requirements must have passed
// requirements.Read.
type Request struct {
	// Requester is the cluster that asks. It is never its own provider.
	Requester string
	// Amounts is the total to reserve. Amounts of zero or less require nothing.
	Amounts quantity.Amounts
	// PodShapes must fit on the provider's nodes at the same time. Amounts includes their total.
	PodShapes []brokerv1alpha1.PodShape
	// Exclude lists the clusters that were already tried for this request.
	Exclude []string
	// Constraints may be nil, which restricts nothing. Affinity and AntiAffinity are ignored:
	// Near and Apart replace them.
	Constraints *brokerv1alpha1.Constraints
	// Near lists the only acceptable clusters, if there are any, and Apart the excluded ones.
	// Both are providers of other reservations.
	Near  []string
	Apart []string
	// Data is priced for storage and transfer; nil for no data.
	Data *brokerv1alpha1.DataVolume
	// Duration is how long the reservation is held; 0 counts as requirements.UnboundedFor.
	Duration time.Duration
	// Currency is the currency in which costs are compared. Empty means that of the highest
	// accepted price, or else the most common one.
	Currency string
	// Weights must be valid; nil means the default preset.
	Weights Weights
}
