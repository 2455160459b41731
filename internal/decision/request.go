package decision

import "github.com/mehdiazizian/liqo-resource-broker/internal/quantity"

// Request is what a provider is sought for.
type Request struct {
	// Requester is the cluster that asks. It is never its own provider.
	Requester string
	// Amounts is what is to be reserved in all; amounts of zero or less ask nothing.
	Amounts quantity.Amounts
	// Pods, when set, must fit on the provider's nodes, beside Amounts.
	Pods *Pods
	// Exclude are the clusters that were tried for this request already.
	Exclude []string
	// Region and Zone restrict the candidates; empty means anywhere.
	Region string
	Zone   string
	// Currency is the one in which costs are compared; empty means the most common.
	Currency string
	// Weights must be valid; nil means the default preset.
	Weights Weights
}
