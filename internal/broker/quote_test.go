package broker

import (
	"strings"
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

func (f *fleet) quote(req *v1.ReservationRequest) *v1.Quote {
	f.t.Helper()
	quote, err := f.RequestQuote(f.t.Context(), "rome", "", req)
	if err != nil {
		f.t.Fatal(err)
	}
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
		f.advertise("paris", "8", "8Gi", priced("0.2", "EUR"))
		f.advertise("berlin", "1", "1Gi", priced("0.01", "EUR"))
		f.set(func(c *Config) {
			c.Weights = decision.Weights{decision.Cost: 100}
			c.Rates = decision.Rates{Date: "2026-11-20", Base: "EUR", Per: map[string]decision.Price{"USD": 1_250_000_000}}
		})
		quote := f.quote(&v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "4", "memory": "1Gi"}, DurationSeconds: 36000,
			Data: &v1.DataVolume{Volume: "10Gi", Region: "eu"},
		})
		// oslo: 4 × 0.1 + 10 × 0.001 dollars an hour, and 10 × 0.09 once; paris: 4 × 0.2 euros an
		// hour.
		if quote.ClusterID != "oslo" || quote.Currency != "EUR" || quote.PricePerHour != "0.4" || quote.PriceTotal != "4" || quote.Hours != 10 || quote.RatesDate != "2026-11-20" {
			t.Errorf("got %+v", quote)
		}
		if len(quote.Candidates) != 3 {
			t.Fatalf("candidates %+v", quote.Candidates)
		}
		if c := quote.Candidates[1]; c.ClusterID != "paris" || c.PriceTotal != "8" || c.Criteria["cost"] != "50.00" {
			t.Errorf("the second is %+v", c)
		}
		if c := quote.Candidates[2]; c.ClusterID != "berlin" || c.Reason != "InsufficientResource" || !strings.Contains(c.Message, "has 1 cpu free") {
			t.Errorf("the third is %+v", c)
		}
		f.set(func(c *Config) { c.Visibility.HidePrices = true })
		if c := f.quote(request("4", "1Gi")).Candidates[1]; c.PricePerHour != "" || c.PriceTotal != "" {
			t.Errorf("of another it shows %+v", c)
		}
	})
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
