package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// set applies a changed default configuration while the broker runs.
func (f *fleet) set(change func(*settings.Config)) {
	f.t.Helper()
	c := settings.Default()
	change(&c)
	f.SetConfig(f.t.Context(), c)
}

func priced(cpu, currency string) func(*v1.Advertisement) {
	return func(a *v1.Advertisement) { a.Cost = v1.Cost{CPUCost: cpu, MemoryCost: "0", Currency: currency} }
}

func candidate(t *testing.T, r *v1.Reservation, id string) v1.Candidate {
	t.Helper()
	for _, c := range r.Candidates {
		if c.ClusterID == id {
			return c
		}
	}
	t.Fatalf("nothing is said of %s: %+v", id, r.Candidates)
	return v1.Candidate{}
}

// paris is the cheapest cluster, once the broker can convert dollars to euros.
func TestRatesTakeEffectWithTheNextDecision(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("berlin", "16", "16Gi", priced("0.09", "EUR"))
		f.advertise("oslo", "16", "16Gi", priced("0.10", "EUR"))
		f.advertise("paris", "16", "16Gi", priced("0.09", "USD"))
		f.set(func(c *settings.Config) { c.Weights = decision.Weights{decision.Cost: 100} })
		first := f.reserve("rome", "request-1", request("1", "1Gi"))
		if got := candidate(t, first, "paris"); target(first) != "berlin" || got.Criteria["cost"] != "0.00" ||
			!strings.Contains(got.Message, "priced in USD, for which there is no rate to EUR") {
			t.Errorf("without rates %s, and of paris %+v", target(first), got)
		}
		f.set(func(c *settings.Config) {
			c.Weights = decision.Weights{decision.Cost: 100}
			c.Rates = decision.Rates{Date: "2026-11-20", Base: "EUR", Per: map[string]decision.Price{"USD": 1_250_000_000}}
		})
		second := f.reserve("rome", "request-2", request("1", "1Gi"))
		got := candidate(t, second, "paris")
		if target(second) != "paris" || got.PricePerHour != "0.072" || got.Currency != "EUR" || !strings.Contains(got.Message, "converted from USD at the rates of 2026-11-20") {
			t.Errorf("with rates %s, and of paris %+v", target(second), got)
		}
	})
}

func TestHeadroomIsNotPromised(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "10", "10Gi")
		f.set(func(c *settings.Config) { c.Headroom = 20 })
		f.wantRefusal("rome", "request-1", request("9", "1Gi"), fault.NoCandidate, "has 8 cpu free, 9 needed", "20 % of every cluster is kept free")
		f.reserve("rome", "request-2", request("8", "1Gi"))
		f.wantAvailable("paris", "2 9Gi")
		waiter := f.reserve("rome", "request-3", waiting("2", "1Gi"))
		f.wantPhases("Queued 1", waiter)
		f.set(func(*settings.Config) {})
		f.wantPhases("Reserved paris", waiter)
	})
}

func TestCeilingsOfOverSubscription(t *testing.T) {
	twice := func(a *v1.Advertisement) { a.OverSubscription = map[string]string{"cpu": "2", "memory": "1"} }
	ceiling := func(hundredths int64) func(*settings.Config) {
		return func(c *settings.Config) { c.OverSubscription = quantity.Ratios{"cpu": hundredths} }
	}
	score := func(f *fleet) string {
		view, err := f.Cluster(f.t.Context(), "paris")
		runtest.Check(f.t, err)
		return view.Score.String()
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi", twice)
		f.wantRefusal("rome", "request-1", request("9", "1Gi"), fault.NoCandidate)
		waiter := f.reserve("rome", "request-2", waiting("10", "1Gi"))
		f.wantPhases("Queued 1", waiter)
		f.set(ceiling(125))
		f.wantPhases("Reserved paris", waiter)
		f.wantAvailable("paris", "0 15Gi")

		f.set(ceiling(150))
		f.kill()
		f.set(ceiling(150))
		f.wantAvailable("paris", "2 15Gi")
		if got, want := score(f), "55.21"; got != want { // 2 of 12 cores, 15 of 16 GiB
			t.Errorf("score %s, want %s", got, want)
		}
		f.hold("rome", "quote-01", held(60, request("2", "1Gi")))

		// Existing promises stand, but no new ones are made.
		f.set(ceiling(110))
		f.wantPhases("Reserved paris", waiter)
		f.wantAvailable("paris", "0 14Gi")
		f.wantRefusal("rome", "request-3", request("1", "1Gi"), fault.NoCandidate)
		f.giveBack(waiter)
		f.wantAvailable("paris", "6800m 15Gi")

		f.set(ceiling(300))
		f.wantAvailable("paris", "14 15Gi") // its offer allows no more than twice
		f.advertise("paris", "8", "16Gi")
		f.wantAvailable("paris", "6 15Gi")
	})
}

// Pods must fit on nodes, however high the over-subscription of the sums.
func TestPodShapesAreNotOverSubscribed(t *testing.T) {
	pods := &v1.ReservationRequest{PodShapes: []v1.PodShape{{Count: 3, Resources: v1.Amounts{"cpu": "4", "memory": "1Gi"}}}}
	inFleet(t, func(f *fleet) {
		f.set(func(c *settings.Config) { c.OverSubscription = quantity.Ratios{"cpu": 200} })
		f.advertise("paris", "8", "16Gi", nodes(v1.NodeShape{Count: 2, Free: v1.Amounts{"cpu": "4", "memory": "8Gi"}}),
			func(a *v1.Advertisement) { a.OverSubscription = map[string]string{"cpu": "2"} })
		f.wantRefusal("rome", "request-1", pods, fault.NoCandidate)
		f.reserve("rome", "request-2", request("12", "1Gi"))
	})
}

// The schema of the ClusterAdvertisement does not allow most of these values, so the broker could not write
// the object.
func TestInvalidAdvertisementIsRefused(t *testing.T) {
	many := map[corev1.ResourceName]brokerv1alpha1.Price{}
	for n := range 33 {
		many[corev1.ResourceName(fmt.Sprint("example.com/r", n))] = "1"
	}
	for name, tc := range map[string]struct {
		change func(*v1.Advertisement)
		want   string
	}{
		"a price without a digit before the point": {func(a *v1.Advertisement) { a.Cost.CPUCost = ".5" }, "price of cpu"},
		"a price without a digit after the point":  {func(a *v1.Advertisement) { a.Cost.MemoryCost = "5." }, "price of memory"},
		"a price of ten digits":                    {func(a *v1.Advertisement) { a.Cost.EgressCost = "1000000000" }, "price of egress"},
		"an over-subscribed device":                {func(a *v1.Advertisement) { a.OverSubscription = map[string]string{"nvidia.com/gpu": "2"} }, "cannot be over-subscribed"},
		"too many prices":                          {func(a *v1.Advertisement) { a.Cost.ResourceCosts = many }, "name at most 32"},
		"an address without https":                 {func(a *v1.Advertisement) { a.EndpointURL = "http://paris.example:6443" }, "endpointURL"},
		"an address with a password":               {func(a *v1.Advertisement) { a.EndpointURL = "https://me:secret@paris.example" }, "endpointURL"},
		"an address with a blank":                  {func(a *v1.Advertisement) { a.EndpointURL = "https://paris example" }, "endpointURL"},
		"an address with a query":                  {func(a *v1.Advertisement) { a.EndpointURL = "https://paris.example/?a=b" }, "endpointURL"},
		"an address with a fragment":               {func(a *v1.Advertisement) { a.EndpointURL = "https://paris.example/#a" }, "endpointURL"},
		"an address with a port that is too large": {func(a *v1.Advertisement) { a.EndpointURL = "https://paris.example:99999" }, "endpointURL"},
		"an address with an escape code":           {func(a *v1.Advertisement) { a.EndpointURL = "https://paris.example/\x1b[2J" }, "endpointURL"},
		"an address without a host":                {func(a *v1.Advertisement) { a.EndpointURL = "https://:6443" }, "endpointURL"},
		"an IPv6 address with the largest port":    {func(a *v1.Advertisement) { a.EndpointURL = "https://[2001:db8::1]:65535" }, ""},
		"an address with a path":                   {func(a *v1.Advertisement) { a.EndpointURL = "https://rancher.example/k8s/clusters/c-1" }, ""},
		"the longest price and no address":         {func(a *v1.Advertisement) { a.Cost.CPUCost, a.EndpointURL = "999999999.123456789", "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				adv := &v1.Advertisement{ClusterID: "paris", Epoch: 1, Sequence: 1, Capacity: v1.Amounts{"cpu": "1"}, Allocatable: v1.Amounts{"cpu": "1"}, Cost: v1.Cost{Currency: "EUR"}}
				tc.change(adv)
				_, err := f.PublishAdvertisement(context.Background(), "paris", adv)
				if tc.want == "" && err != nil || tc.want != "" && (fault.ReasonOf(err) != fault.Invalid || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

func TestCandidatesVisibleToRequesters(t *testing.T) {
	shown := func(c v1.Candidate) string {
		parts := []string{c.ClusterID, c.Reason, c.Message, c.PricePerHour, c.Criteria["cost"]}
		return strings.Join(parts, "|")
	}
	cases := map[string]struct {
		visibility    visibility.Visibility
		want, refused []string
		why           string
	}{
		"everything": {
			want:    []string{"berlin|||0.8|100.00", "paris|LowerScore||1.6|50.00"},
			refused: []string{"berlin|InsufficientResource|has 8 cpu free, 99 needed|9.9|", "paris|InsufficientResource|has 16 cpu free, 99 needed|19.8|"},
			why:     "berlin: has 8 cpu free",
		},
		"no prices": {
			visibility: visibility.Visibility{HidePrices: true},
			want:       []string{"berlin|||0.8|100.00", "paris|LowerScore|||"},
			refused:    []string{"berlin|InsufficientResource|has 8 cpu free, 99 needed||", "paris|InsufficientResource|has 16 cpu free, 99 needed||"},
			why:        "berlin: has 8 cpu free",
		},
		"no names": {
			visibility: visibility.Visibility{Candidates: brokerv1alpha1.CandidatesAnonymous},
			want:       []string{"berlin|||0.8|100.00", "candidate-2|LowerScore||1.6|50.00"},
			refused:    []string{"candidate-1|InsufficientResource||9.9|", "candidate-2|InsufficientResource||19.8|"},
			why:        "candidate-1: InsufficientResource; candidate-2: InsufficientResource",
		},
		"counts": {
			visibility: visibility.Visibility{Candidates: brokerv1alpha1.CandidatesCounts},
			want:       []string{"berlin|||0.8|100.00"},
			why:        "no cluster can hold cpu=99 memory=1Gi: 2 InsufficientResource",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("berlin", "8", "8Gi", priced("0.1", "EUR"))
				f.advertise("paris", "16", "16Gi", priced("0.2", "EUR"))
				f.set(func(c *settings.Config) {
					c.Visibility, c.Weights = tc.visibility, decision.Weights{decision.Cost: 100}
				})
				r := f.reserve("rome", "request-1", request("8", "1Gi"))
				var got, refused []string
				for _, c := range r.Candidates {
					got = append(got, shown(c))
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("granted (-want +got):\n%s", diff)
				}
				f.release("rome", "request-1")
				f.confirm(r)
				_, err := f.RequestReservation(f.t.Context(), "rome", "request-2", request("99", "1Gi"))
				problem, _ := err.(*fault.Error)
				for _, c := range problem.Candidates {
					refused = append(refused, shown(c))
				}
				if diff := cmp.Diff(tc.refused, refused); diff != "" {
					t.Errorf("refused (-want +got):\n%s", diff)
				}
				if !strings.Contains(problem.Detail, tc.why) || problem.Rejected["InsufficientResource"] != 2 {
					t.Errorf("%s, %v", problem.Detail, problem.Rejected)
				}
				// The book keeps all candidates, because users of the broker's cluster may see them.
				waiter := f.reserve("rome", "request-3", waiting("99", "1Gi"))
				view, err := f.Reservation(f.t.Context(), waiter.Name)
				if err != nil || len(view.Explanation.Candidates()) != 2 || view.Explanation.Candidates()[0].ClusterID != "berlin" {
					t.Errorf("in the book %v, %v", view, err)
				}
				if strings.Contains(waiter.Message, "berlin") != strings.Contains(tc.why, "berlin") {
					t.Errorf("who waits is told %q", waiter.Message)
				}
			})
		})
	}
}

// A waiting request may depend on a label or the nodes of a cluster, or on the provider of another
// reservation.
func TestWaitingRequestWithConstraintsIsServed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "16Gi")
		gold := f.reserve("rome", "request-1", waiting("1", "1Gi", func(r *v1.ReservationRequest) {
			r.Constraints = &v1.Constraints{ClusterSelector: &v1.LabelSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "gold"}}}
		}))
		f.wantPhases("Queued 1", gold)
		f.advertise("paris", "16", "16Gi", func(a *v1.Advertisement) { a.Labels = map[string]string{"tier": "gold"} })
		f.wantPhases("Reserved paris", gold)

		f.advertise("oslo", "2", "2Gi")
		db := f.reserve("rome", "request-2", with(func(r *v1.ReservationRequest) { r.Group, r.TargetClusterID = "db", "oslo" }))
		near := f.reserve("rome", "request-3", waiting("4", "1Gi", func(r *v1.ReservationRequest) {
			r.Constraints = &v1.Constraints{Affinity: []string{"db"}}
		}))
		f.wantPhases("Queued 1", near)
		f.giveBack(db)
		f.wantPhases("Reserved paris", near)

		shaped := f.reserve("rome", "request-4", waiting("1", "1Gi", func(r *v1.ReservationRequest) {
			r.Resources, r.PodShapes = nil, []v1.PodShape{{Count: 1, Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}}}
			r.TargetClusterID = "oslo"
		}))
		f.wantPhases("Queued 1", shaped)
		f.advertise("oslo", "2", "2Gi", nodes(v1.NodeShape{Count: 1, Free: v1.Amounts{"cpu": "2", "memory": "2Gi"}}))
		f.wantPhases("Reserved oslo", shaped)
	})
}
