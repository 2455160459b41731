package ledger

import (
	"encoding/json"
	"fmt"
	"testing"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"

	"github.com/google/go-cmp/cmp"
)

func TestExplanationsAreReadAsTheyWereMade(t *testing.T) {
	scored := brokerv1alpha1.Candidate{ClusterID: paris, Score: "66.67", Criteria: map[string]string{"availability": "50.00", "cost": "100.00"}}
	lower := scored
	lower.Reason = LowerScore
	priced := func(id, reason, message string) brokerv1alpha1.Candidate {
		return brokerv1alpha1.Candidate{ClusterID: id, Score: "66.67", Criteria: scored.Criteria, Reason: reason, Message: message, PricePerHour: "0.5", Currency: "EUR"}
	}
	partly := priced(paris, "", "")
	partly.NotPriced = []string{"memory", "nvidia.com/gpu"}
	cases := map[string]struct {
		candidates []brokerv1alpha1.Candidate
		rejected   map[string]int32
	}{
		"nobody was asked":                         {},
		"nobody could":                             {rejected: map[string]int32{"TooSmall": 2}},
		"one was judged alone":                     {candidates: []brokerv1alpha1.Candidate{scored}},
		"a winner, a loser and two that could not": {[]brokerv1alpha1.Candidate{scored, {ClusterID: berlin, Score: "60.00", Criteria: scored.Criteria}, {ClusterID: oslo, Reason: "TooSmall", Message: "8 cpu of 4"}}, map[string]int32{"TooSmall": 1, "Stale": 1}},
		"a winner with a price and a note":         {candidates: []brokerv1alpha1.Candidate{{ClusterID: paris, Score: "66.67", Criteria: scored.Criteria, Message: "cost: converted from USD", PricePerHour: "0.5", Currency: "EUR"}}},
		"a loser":                                  {candidates: []brokerv1alpha1.Candidate{lower}},
		"a score that counts for nothing":          {candidates: []brokerv1alpha1.Candidate{{ClusterID: paris, Score: "1.00", Reason: "Denied", Message: "by its operator"}}},
		"three that are alike, one with a note":    {candidates: []brokerv1alpha1.Candidate{priced(paris, "", ""), priced(berlin, LowerScore, ""), priced(oslo, LowerScore, "converted from USD")}},
		"one that names no price for two":          {candidates: []brokerv1alpha1.Candidate{partly, priced(berlin, LowerScore, "")}},
		"one alike that costs nothing":             {candidates: []brokerv1alpha1.Candidate{priced(paris, "", ""), {ClusterID: berlin, Score: "66.67", Criteria: scored.Criteria}}},
		"a criterion that knows one of two":        {candidates: []brokerv1alpha1.Candidate{scored, {ClusterID: berlin, Score: "60.00", Criteria: map[string]string{"cost": "60.00"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			written, err := json.Marshal(Explain(tc.candidates, tc.rejected))
			runtest.Check(t, err)
			var read Explanation
			runtest.Check(t, json.Unmarshal(written, &read))
			if diff := cmp.Diff(append([]brokerv1alpha1.Candidate{}, tc.candidates...), read.Candidates()); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, read.Rejected()); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplanationIsShort(t *testing.T) {
	candidates := make([]brokerv1alpha1.Candidate, 10)
	for i := range candidates {
		candidates[i] = brokerv1alpha1.Candidate{ClusterID: fmt.Sprintf("cluster-%06d", 123*i), Score: fmt.Sprintf("66.%02d", i), Criteria: map[string]string{"availability": fmt.Sprintf("50.%02d", i), "cost": "100.00"}, Reason: LowerScore}
	}
	if e := Explain(candidates, nil); len(e) > 300 {
		t.Errorf("%d bytes, in every grant of the journal: %s", len(e), e)
	}
}
