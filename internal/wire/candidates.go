package wire

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// Limits that the schemas of the CRDs set: the number of candidates in a list, and the lengths of
// their texts.
const (
	maxCandidates = 10
	maxReason     = 64
	maxPrice      = 40
	maxCurrency   = 3
	maxMessage    = 512
)

// ClipCandidates returns the candidates of a decision as a status shows them: at most ten, with
// texts shortened to the limits of the schema.
func ClipCandidates(in []brokerv1alpha1.Candidate) []brokerv1alpha1.Candidate {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in[:min(len(in), maxCandidates)])
	for i := range out {
		c := &out[i]
		c.Criteria = maps.Clone(c.Criteria)
		c.Reason, c.Message = message.Clip(c.Reason, maxReason), message.Clip(c.Message, maxMessage)
		c.PricePerHour, c.Currency = message.Clip(c.PricePerHour, maxPrice), message.Clip(c.Currency, maxCurrency)
	}
	return out
}
