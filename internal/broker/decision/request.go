package decision

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// Request is what a provider is sought for.
type Request struct {
	// Requester is the cluster that asks. It is never its own provider.
	Requester string
	// Amounts is what is to be reserved in all; amounts of zero or less ask nothing.
	Amounts quantity.Amounts
	// Pods must fit on the provider's nodes beside each other. Amounts hold what they
	// need in all.
	Pods []terms.Pods
	// Exclude are the clusters that were tried for this request already.
	Exclude []string
	// Constraints must be valid; nil restricts nothing. Affinity and AntiAffinity are
	// not read: Near and Apart stand for them.
	Constraints *terms.Constraints
	// Near are the only clusters wanted, where there are any, and Apart those that are
	// not: the providers of other reservations of the requester.
	Near  []string
	Apart []string
	// Data is priced where it is stored and moved; nil means none.
	Data *terms.Data
	// Duration is how long it is held; 0 counts as terms.UnboundedFor.
	Duration time.Duration
	// Currency is the one in which costs are compared; empty means that of the highest
	// price accepted, or else the most common.
	Currency string
	// Weights must be valid; nil means the default preset.
	Weights Weights
}
