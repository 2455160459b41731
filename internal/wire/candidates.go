package wire

import (
	"maps"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// Bounds of CandidateScore in the schema of the kinds that hold it.
const (
	maxCandidates = 10
	maxReason     = 64
	maxPrice      = 40
	maxCurrency   = 3
)

// MaxCandidateMessage bounds the message about a candidate, as in the schema of CandidateScore.
const MaxCandidateMessage = 512

// ToCandidates converts the explanation of a decision for a status: at most ten candidates, with
// texts cut to the bounds of the schema.
func ToCandidates(in []v1.Candidate) []brokerv1alpha1.CandidateScore {
	if len(in) == 0 {
		return nil
	}
	out := make([]brokerv1alpha1.CandidateScore, min(len(in), maxCandidates))
	for i := range out {
		out[i] = brokerv1alpha1.CandidateScore{
			ClusterID: in[i].ClusterID,
			Score:     in[i].Score,
			Criteria:  maps.Clone(in[i].Criteria),
			Reason:    message.Clip(in[i].Reason, maxReason),
			Message:   message.Clip(in[i].Message, MaxCandidateMessage),

			PricePerHour: message.Clip(in[i].PricePerHour, maxPrice),
			Currency:     message.Clip(in[i].Currency, maxCurrency),
		}
	}
	return out
}
