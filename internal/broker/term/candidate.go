package term

import (
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// CandidateOf returns a verdict in the type of the API. winner is the ID of the chosen cluster, "" for
// none.
func CandidateOf(v decision.Verdict, winner string) brokerv1alpha1.Candidate {
	c := brokerv1alpha1.Candidate{ClusterID: v.ID}
	if v.Bill.Currency != "" {
		c.PricePerHour, c.Currency, c.NotPriced = decision.Money(v.Bill.PerHour), v.Bill.Currency, v.Bill.NotPriced
	}
	if v.Rejection != nil {
		c.Reason, c.Message = string(v.Rejection.Reason), v.Rejection.Message()
		return c
	}
	c.Score = v.Total.String()
	c.Criteria = make(map[string]string, len(v.Scores))
	for _, s := range v.Scores {
		c.Criteria[s.Criterion] = s.Score.String()
		if s.Criterion == decision.Cost && s.Note != "" {
			c.Message = s.Criterion + ": " + s.Note
		}
	}
	if v.ID != winner {
		c.Reason = ledger.LowerScore
	}
	return c
}
