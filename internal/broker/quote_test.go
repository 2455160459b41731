package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func (f *fleet) quote(req *v1.ReservationRequest) *v1.Quote {
	f.t.Helper()
	quote, err := f.RequestQuote(f.t.Context(), "rome", "", req)
	runtest.Check(f.t, err)
	return quote
}

// A quote shows what a request made right after it gets, and changes nothing.
func TestQuoteMatchesDecision(t *testing.T) {
	requests := map[string]*v1.ReservationRequest{
		"for anybody":            with(func(r *v1.ReservationRequest) { r.DurationSeconds = 7200 }),
		"for one by name":        with(func(r *v1.ReservationRequest) { r.DurationSeconds, r.TargetClusterID = 7200, "paris" }),
		"with a constraint":      constrained(v1.Constraints{Regions: []string{"eu"}}),
		"with a low price limit": constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "0.1", Currency: "EUR"}}),
		"that nobody holds":      request("99", "1Gi"),
	}
	for name, req := range requests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
				f.advertise("oslo", "8", "32Gi", priced("0.1", "EUR"), func(a *v1.Advertisement) { a.Topology.Region = "eu" })
				before := f.available("paris") + " " + f.available("oslo")
				quote := f.quote(req)
				if after := f.available("paris") + " " + f.available("oslo"); after != before {
					t.Errorf("it took something: %s before, %s after", before, after)
				}
				if got := f.quote(req); got.ClusterID != quote.ClusterID || got.PriceTotal != quote.PriceTotal {
					t.Errorf("asked again %+v, before %+v", got, quote)
				}
				r, err := f.RequestReservation(f.t.Context(), "rome", "request-1", req)
				if err != nil {
					problem, _ := err.(*fault.Error)
					if quote.ClusterID != "" || quote.Message != problem.Detail || len(quote.Candidates) != len(problem.Candidates) {
						t.Errorf("quoted %+v, then %v", quote, err)
					}
					return
				}
				won := candidate(t, r, target(r))
				if quote.ClusterID != target(r) || quote.PricePerHour != won.PricePerHour || quote.Candidates[0].Score != won.Score {
					t.Errorf("quoted %+v, then granted %+v on %s", quote, won, target(r))
				}
			})
		})
	}
}

func TestQuoteNamesPricesAndReasons(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("oslo", "8", "8Gi", func(a *v1.Advertisement) {
			a.Cost = v1.Cost{CPUCost: "0.1", MemoryCost: "0", StorageCost: "0.001", EgressCost: "0.09", Currency: "USD"}
		})
		f.advertise("paris", "8", "8Gi", func(a *v1.Advertisement) { a.Cost = v1.Cost{CPUCost: "0.2", Currency: "EUR"} })
		f.advertise("berlin", "1", "1Gi", priced("0.01", "EUR"))
		f.set(func(c *settings.Config) {
			c.Weights = decision.Weights{decision.Cost: 100}
			c.Rates = decision.Rates{Date: "2026-11-20", Base: "EUR", Per: map[string]decision.Price{"USD": 1_250_000_000}}
		})
		quote := f.quote(&v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "4", "memory": "1Gi"}, DurationSeconds: 36000,
			Data: &v1.DataVolume{Volume: "10Gi", Region: "eu"},
		})
		// oslo: 4 × 0.1 + 10 × 0.001 dollars an hour, and 10 × 0.09 once; paris: 4 × 0.2 euros an
		// hour.
		if quote.ClusterID != "oslo" || quote.Currency != "EUR" || quote.PricePerHour != "0.4" || quote.PriceTotal != "4" || quote.Hours != 10 || quote.RatesDate != "2026-11-20" || quote.NotPriced != nil {
			t.Errorf("got %+v", quote)
		}
		if len(quote.Candidates) != 3 {
			t.Fatalf("candidates %+v", quote.Candidates)
		}
		if c := quote.Candidates[1]; c.ClusterID != "paris" || c.PriceTotal != "8" || c.Criteria["cost"] != "50.00" || !slices.Equal(c.NotPriced, []string{"memory"}) {
			t.Errorf("the second is %+v", c)
		}
		if c := quote.Candidates[2]; c.ClusterID != "berlin" || c.Reason != "InsufficientResource" || !strings.Contains(c.Message, "has 1 cpu free") {
			t.Errorf("the third is %+v", c)
		}
		f.set(func(c *settings.Config) { c.Visibility.HidePrices = true })
		if c := f.quote(request("4", "1Gi")).Candidates[1]; c.PricePerHour != "" || c.PriceTotal != "" || c.NotPriced != nil {
			t.Errorf("of another it shows %+v", c)
		}
	})
}

func TestQuoteWarnsOfLikelyMistakes(t *testing.T) {
	everything := &v1.Constraints{
		IncludeClusters: []string{"rome", "paris", "atlantis"}, ExcludeClusters: []string{"mu"}, Regions: []string{"eu", "mars"}, Zones: []string{"moon"},
		ClusterSelector: &v1.LabelSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "gold"}},
		NodeSelector:    map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "s390x"}, MaxPrice: &v1.Money{Amount: "1", Currency: "CHF"},
	}
	unknown := []string{
		"constraints.includeClusters[2]: no cluster atlantis has advertised",
		"constraints.excludeClusters[0]: no cluster mu has advertised",
		"constraints.regions[1]: no cluster advertises region mars",
		"constraints.zones[0]: no cluster advertises zone moon",
		"constraints.clusterSelector.matchLabels: no cluster advertises label tier=gold",
		"constraints.nodeSelector: no cluster advertises nodes with label kubernetes.io/arch=s390x",
		"constraints.maxPrice.currency: no cluster has prices in CHF or in a currency with a rate to it",
	}
	large := []string{"no node of paris has more than 4 of the 6 cpu free: a pod that requests more stays Pending; name pods of that size in podShapes, so that they fit"}
	cases := map[string]struct {
		request *v1.ReservationRequest
		shown   brokerv1alpha1.CandidatesShown
		want    []string
	}{
		"names that no cluster advertises":       {request: constrained(*everything), want: unknown},
		"names, where other clusters are secret": {request: constrained(*everything), shown: brokerv1alpha1.CandidatesCounts},
		"names that are advertised":              {request: constrained(v1.Constraints{Regions: []string{"eu"}, MaxPrice: &v1.Money{Amount: "9", Currency: "EUR"}})},
		"more than the largest node has":         {request: request("6", "1Gi"), want: large},
		"as much as the largest node has":        {request: request("4", "1Gi")},
		"pods, for which the provider looks": {request: with(func(r *v1.ReservationRequest) {
			r.Resources, r.PodShapes = v1.Amounts{"cpu": "6"}, []v1.PodShape{{Count: 3, Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}}}
		})},
		"a device, whose nodes have its taint": {request: with(func(r *v1.ReservationRequest) {
			r.Resources = v1.Amounts{"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "1"}
		})},
		"more than the nodes of its selector have": {
			request: with(func(r *v1.ReservationRequest) {
				r.Resources = v1.Amounts{"cpu": "3", "memory": "1Gi"}
				r.Constraints = &v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "arm64"}}
			}),
			want: []string{"no node of paris has more than 2 of the 3 cpu free: a pod that requests more stays Pending; name pods of that size in podShapes, so that they fit"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "8", "32Gi", priced("0.1", "EUR"), func(a *v1.Advertisement) {
					a.Topology.Region, a.Capacity["nvidia.com/gpu"] = "eu", "1" // Allocatable is the same map
				}, nodes(
					v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": "3", "memory": "8Gi", "nvidia.com/gpu": "1"}, Taints: []brokerv1alpha1.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}},
					v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}},
					v1.NodeShape{Count: 2, Free: v1.Amounts{"cpu": "2", "memory": "8Gi"}, NodeLabels: v1.Labels{"kubernetes.io/arch": "arm64"}},
				))
				f.set(func(c *settings.Config) { c.Visibility.Candidates = tc.shown })
				if diff := cmp.Diff(tc.want, f.quote(tc.request).Warnings); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestInvalidQuoteIsRefused(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "8Gi")
		if _, err := f.RequestQuote(f.t.Context(), "rome", "", request("-1", "1Gi")); fault.ReasonOf(err) != fault.Invalid {
			t.Errorf("for less than nothing: %v", err)
		}
		if _, err := f.RequestQuote(f.t.Context(), "rome", "", with(func(r *v1.ReservationRequest) { r.RequesterID = "milan" })); fault.ReasonOf(err) != fault.Forbidden {
			t.Errorf("for another cluster: %v", err)
		}
	})
}
