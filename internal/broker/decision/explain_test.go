package decision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestExplainTellsEveryCandidate(t *testing.T) {
	stale := cluster("madrid", 16, 16, 64, 64)
	stale.Stale = true
	rated := cluster("paris", 8, 16, 32, 64).withPrices(t, "EUR", "0.10", "0.02")
	rated.Reliability = new(0.9)
	m := newMarketWith(t,
		cluster("rome", 16, 16, 64, 64), stale, rated,
		cluster("berlin", 16, 16, 64, 64).withPrices(t, "EUR", "0.20", "0.04"),
		cluster("vienna", 4, 16, 16, 64),
		cluster("zurich", 4, 16, 16, 64).withPrices(t, "CHF", "0.01", "0.01"),
		cluster("oslo", 1, 16, 64, 64),
	)
	m.SetLink("rome", "paris", Link{Measured: true, Latency: 50 * time.Millisecond})
	weights, err := Preset(PresetMultiCriteria)
	runtest.Check(t, err)

	got := explainAll(m, &Request{Requester: "rome", Amounts: size(2, 10), Weights: weights})

	want := Explanation{
		Winner:  "berlin",
		Dearest: "berlin",
		Verdicts: []Verdict{
			{ID: "berlin", Total: 85, Bill: dailyBill("0.8", "EUR"), Scores: []CriterionScore{
				{Availability, 100, ""}, {Cost, 50, ""}, {Latency, 50, "not measured"}, {Reliability, 50, "no record yet"},
			}},
			{ID: "paris", Total: 63.25, Bill: dailyBill("0.4", "EUR"), Scores: []CriterionScore{
				{Availability, 50, ""}, {Cost, 100, ""}, {Latency, 75, ""}, {Reliability, 90, ""},
			}},
			{ID: "vienna", Total: 22.5, Scores: []CriterionScore{
				{Availability, 25, ""}, {Cost, 0, "names no price"}, {Latency, 50, "not measured"}, {Reliability, 50, "no record yet"},
			}},
			{ID: "zurich", Total: 22.5, Bill: dailyBill("0.12", "CHF"), Scores: []CriterionScore{
				{Availability, 25, ""}, {Cost, 0, "is priced in CHF, for which there is no rate to EUR"}, {Latency, 50, "not measured"}, {Reliability, 50, "no record yet"},
			}},
			{ID: "madrid", Rejection: &Rejection{Reason: Stale}},
			{ID: "oslo", Rejection: &Rejection{InsufficientResource, corev1.ResourceCPU, 2000, 1000, ""}},
			{ID: "rome", Rejection: &Rejection{Reason: Self}},
		},
		Rejected: map[Reason]int{Stale: 1, InsufficientResource: 1, Self: 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWeightsOfCriteriaWithoutDataFallAway(t *testing.T) {
	m := newMarketWith(t, cluster("berlin", 8, 16, 32, 64), cluster("paris", 12, 16, 48, 64))
	cases := map[string]struct {
		weights Weights
	}{
		"the default": {nil},
		"all four":    {presets[PresetMultiCriteria]},
		"availability steps in where nothing is left": {Weights{Cost: 60, Latency: 40}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := explainAll(m, &Request{Requester: "rome", Amounts: size(1, 1), Weights: tc.weights})
			if diff := cmp.Diff([]CriterionScore{{Criterion: Availability, Score: 75}}, got.Verdicts[0].Scores); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Verdicts[0].Total != 75 || got.Winner != "paris" {
				t.Errorf("got %+v", got.Verdicts[0])
			}
		})
	}
}

func TestLatencyFallsLinearlyToZero(t *testing.T) {
	for latency, want := range map[time.Duration]Score{
		-time.Millisecond: 100, 0: 100, 50 * time.Millisecond: 75, 100 * time.Millisecond: 50,
		199 * time.Millisecond: 0.5, 200 * time.Millisecond: 0, time.Hour: 0,
	} {
		m := newMarketWith(t, cluster("paris", 1, 1, 1, 1))
		m.SetLink("rome", "paris", Link{Measured: true, Latency: latency})
		got := explainAll(m, &Request{Requester: "rome", Weights: Weights{Latency: 100}}).Verdicts[0].Total
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", latency, diff)
		}
	}
}

// explainAll returns an explanation with a verdict on every candidate.
func explainAll(m *Market, r *Request) Explanation { return ExplainTop(m, r, m.Len()) }
