package decision

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestDecide(t *testing.T) {
	availabilityOnly := Weights{Availability: 100}
	twins := func() []Candidate {
		return []Candidate{cluster("berlin", 8, 16, 32, 64), cluster("paris", 8, 16, 32, 64)}
	}
	with := func(c Candidate, change func(*Candidate)) Candidate {
		change(&c)
		return c
	}
	neverPeers := func(id string) Candidate {
		return with(cluster(id, 16, 16, 64, 64), func(c *Candidate) { c.Lending = &lending.Policy{Unready: lending.NotPeering} })
	}
	cases := map[string]struct {
		candidates []Candidate
		link       map[string]Link // from rome, the requester, to each provider
		request    Request
		want       string
	}{
		"the larger free share wins, not the larger amount": {
			candidates: []Candidate{cluster("cluster-1", 10, 15, 20, 30), cluster("cluster-2", 5, 7, 10, 14)},
			request:    Request{Amounts: size(2, 4), Weights: availabilityOnly},
			want:       "cluster-2",
		},
		"a larger share that is too small for the request loses": {
			candidates: []Candidate{cluster("cluster-1", 10, 15, 20, 30), cluster("cluster-2", 5, 7, 10, 14)},
			request:    Request{Amounts: size(6, 4), Weights: availabilityOnly},
			want:       "cluster-1",
		},
		"an exact fit is taken": {
			candidates: []Candidate{cluster("paris", 8, 16, 32, 64)},
			request:    Request{Amounts: size(8, 32)},
			want:       "paris",
		},
		"one millicore too many is not": {
			candidates: []Candidate{cluster("paris", 8, 16, 32, 64)},
			request:    Request{Amounts: quantity.Amounts{corev1.ResourceCPU: 8001}},
		},
		"nobody provides in an empty market": {request: Request{Amounts: size(1, 1)}},
		"equals are settled by name":         {candidates: twins(), request: Request{Amounts: size(1, 1)}, want: "berlin"},
		"a cheap but almost full cluster loses against a dearer empty one": {
			candidates: []Candidate{
				cluster("cheap", 2, 16, 4, 64).withPrices(t, "EUR", "0.04", "0.01"),
				cluster("empty", 16, 16, 64, 64).withPrices(t, "EUR", "0.05", "0.01"),
			},
			request: Request{Amounts: size(1, 1)},
			want:    "empty",
		},
		"one without a price loses against a priced equal": {
			candidates: []Candidate{cluster("berlin", 8, 16, 32, 64), cluster("paris", 8, 16, 32, 64).withPrices(t, "EUR", "9", "9")},
			request:    Request{Amounts: size(1, 1)},
			want:       "paris",
		},
		"without any price resources decide alone": {
			candidates: []Candidate{cluster("berlin", 8, 16, 32, 64), cluster("paris", 9, 16, 32, 64)},
			request:    Request{Amounts: size(1, 1), Weights: Weights{Cost: 100}},
			want:       "paris",
		},
		"the requester's currency is the one compared": {
			candidates: []Candidate{
				cluster("berlin", 8, 16, 32, 64).withPrices(t, "EUR", "0.01", "0.01"),
				cluster("madrid", 8, 16, 32, 64).withPrices(t, "EUR", "0.01", "0.01"),
				cluster("zurich", 8, 16, 32, 64).withPrices(t, "CHF", "0.02", "0.02"),
			},
			request: Request{Amounts: size(1, 1), Currency: "CHF"},
			want:    "zurich",
		},
		"the most common currency is compared where none is asked for": {
			candidates: []Candidate{
				cluster("aarau", 8, 16, 32, 64).withPrices(t, "CHF", "0.001", "0.001"),
				cluster("berlin", 8, 16, 32, 64).withPrices(t, "EUR", "0.01", "0.01"),
				cluster("madrid", 8, 16, 32, 64).withPrices(t, "EUR", "0.02", "0.01"),
			},
			request: Request{Amounts: size(1, 1)},
			want:    "berlin",
		},
		"the requester is not its own provider": {
			candidates: []Candidate{cluster("paris", 1, 16, 1, 64), cluster("rome", 16, 16, 64, 64)},
			request:    Request{Amounts: size(1, 1)},
			want:       "paris",
		},
		"who was tried is not tried again": {
			candidates: twins(),
			request:    Request{Amounts: size(1, 1), Exclude: []string{"berlin", "unheard-of"}},
			want:       "paris",
		},
		"a stale cluster is passed over": {
			candidates: []Candidate{with(twins()[0], func(c *Candidate) { c.Stale = true }), twins()[1]},
			request:    Request{Amounts: size(1, 1)},
			want:       "paris",
		},
		"a denied cluster is passed over": {
			candidates: []Candidate{with(twins()[0], func(c *Candidate) { c.Denied = true }), twins()[1]},
			request:    Request{Amounts: size(1, 1)},
			want:       "paris",
		},
		"a cluster that denies this requester is passed over": {
			candidates: twins(), link: map[string]Link{"berlin": {Denied: true}},
			request: Request{Amounts: size(1, 1)},
			want:    "paris",
		},
		"a cluster that lends to others is passed over": {
			candidates: []Candidate{with(twins()[0], func(c *Candidate) { c.Lending = &lending.Policy{Allow: []string{"milan"}} }), twins()[1]},
			request:    Request{Requester: "rome", Amounts: size(1, 1)},
			want:       "paris",
		},
		"a cluster that pauses is passed over": {
			candidates: []Candidate{with(twins()[0], func(c *Candidate) { c.Lending = &lending.Policy{Paused: true} }), twins()[1]},
			request:    Request{Requester: "rome", Amounts: size(1, 1)},
			want:       "paris",
		},
		"a cluster that never peers is passed over": {
			candidates: append(twins(), cluster("rome", 1, 1, 1, 1), neverPeers("cairo")),
			request:    Request{Requester: "rome", Amounts: size(1, 1)},
			want:       "berlin",
		},
		"a cluster that never peers serves a requester that does not either": {
			candidates: []Candidate{neverPeers("rome"), neverPeers("cairo")},
			request:    Request{Requester: "rome", Amounts: size(1, 1)},
			want:       "cairo",
		},
		"a cluster that never peers serves a requester that is no cluster": {
			candidates: []Candidate{neverPeers("cairo")},
			request:    Request{Requester: "a label", Amounts: size(1, 1)},
			want:       "cairo",
		},
		"an unreachable cluster is passed over": {
			candidates: twins(), link: map[string]Link{"berlin": {Unreachable: true}},
			request: Request{Amounts: size(1, 1)},
			want:    "paris",
		},
		"another requester's links are its own business": {
			candidates: twins(), link: map[string]Link{"berlin": {Unreachable: true}},
			request: Request{Requester: "oslo", Amounts: size(1, 1)},
			want:    "berlin",
		},
		"the nearer wins with equal resources": {
			candidates: twins(),
			link:       map[string]Link{"berlin": {Measured: true, Latency: 80 * time.Millisecond}, "paris": {Measured: true, Latency: 20 * time.Millisecond}},
			request:    Request{Amounts: size(1, 1), Weights: Weights{Availability: 95, Latency: 5}},
			want:       "paris",
		},
		"the more reliable wins with equal resources": {
			candidates: []Candidate{twins()[0], with(twins()[1], func(c *Candidate) { c.Reliability = new(0.99) })},
			request:    Request{Amounts: size(1, 1), Weights: Weights{Availability: 95, Reliability: 5}},
			want:       "paris",
		},
		"a record worse than even loses against no record": {
			candidates: []Candidate{with(twins()[0], func(c *Candidate) { c.Reliability = new(0.4) }), twins()[1]},
			request:    Request{Amounts: size(1, 1), Weights: Weights{Availability: 95, Reliability: 5}},
			want:       "paris",
		},
		"a resource nobody offers is found with nobody": {
			candidates: twins(),
			request:    Request{Amounts: quantity.Amounts{gpu: 1}},
		},
		"a cluster without a histogram is not trusted with pods": {
			candidates: twins(),
			request:    Request{Amounts: size(1, 1), PodShapes: []brokerv1alpha1.PodShape{podsOf(1, size(1, 1))}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMarketWith(t, tc.candidates...)
			for provider, l := range tc.link {
				m.SetLink("rome", provider, l)
			}
			if tc.request.Requester == "" {
				tc.request.Requester = "rome"
			}
			runtest.Check(t, tc.request.Weights.Validate())
			got, ok := Decide(m, &tc.request)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q %v, want %q: %+v", got, ok, tc.want, explainAll(m, &tc.request))
			}
			if explained := explainAll(m, &tc.request).Winner; explained != got {
				t.Errorf("explained %q, decided %q", explained, got)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	histogram := cluster("shaped", 16, 16, 64, 64)
	histogram.Shapes = []quantity.NodeShape{{Count: 3, Free: size(5, 20)}}
	m := newMarketWith(t, cluster("paris", 5, 16, 32, 64), cluster("rome", 16, 16, 64, 64), histogram)
	cases := map[string]struct {
		id          string
		request     Request
		want        Rejection
		wantMessage string
	}{
		"it can provide": {id: "paris", request: Request{Amounts: size(5, 32)}},
		"too little cpu": {
			id: "paris", request: Request{Amounts: size(8, 64)},
			want:        Rejection{InsufficientResource, corev1.ResourceCPU, 8000, 5000, ""},
			wantMessage: "has 5 cpu free, 8 needed",
		},
		"too little memory": {
			id: "paris", request: Request{Amounts: size(1, 64)},
			want:        Rejection{InsufficientResource, corev1.ResourceMemory, 64 * gib, 32 * gib, ""},
			wantMessage: "has 32Gi memory free, 64Gi needed",
		},
		"no GPU ever": {
			id: "paris", request: Request{Amounts: quantity.Amounts{gpu: 2}},
			want:        Rejection{Reason: NeverAdvertised, Resource: gpu, Need: 2},
			wantMessage: "never advertised nvidia.com/gpu, 2 needed",
		},
		"pods that do not fit on nodes": {
			id: "shaped", request: Request{Amounts: size(16, 16), PodShapes: []brokerv1alpha1.PodShape{podsOf(8, size(2, 2))}},
			want:        Rejection{Reason: ShapeDoesNotFit, Need: 8, Have: 6},
			wantMessage: "has room on its nodes for 6 of 8 pods",
		},
		"itself":    {id: "rome", request: Request{}, want: Rejection{Reason: Self}, wantMessage: "is the requester itself"},
		"not known": {id: "oslo", want: Rejection{Reason: UnknownCluster}, wantMessage: "has not advertised"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.request.Requester = "rome"
			got, ok := Check(m, &tc.request, tc.id)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want.Reason == "") {
				t.Errorf("ok %v (-want +got):\n%s", ok, diff)
			}
			if message := got.Message(); message != tc.wantMessage {
				t.Errorf("message %q, want %q", message, tc.wantMessage)
			}
		})
	}
}

func TestAvailabilityScore(t *testing.T) {
	cases := map[string]struct {
		available, allocatable quantity.Amounts
		want                   string
	}{
		"10 of 15 cores and 20 of 30 GiB":     {size(10, 20), size(15, 30), "66.67"},
		"5 of 7 cores and 10 of 14 GiB":       {size(5, 10), size(7, 14), "71.43"},
		"everything free":                     {size(7, 14), size(7, 14), "100.00"},
		"nothing free":                        {nil, size(7, 14), "0.00"},
		"memory free, cpu gone":               {size(0, 14), size(7, 14), "50.00"},
		"more free than allocatable":          {size(9, 20), size(7, 14), "100.00"},
		"nothing allocatable":                 {size(1, 1), nil, "0.00"},
		"overdrawn":                           {size(-3, 7), size(7, 14), "25.00"},
		"the largest amounts that are known":  {quantity.Amounts{corev1.ResourceCPU: math.MaxInt64 - 1, corev1.ResourceMemory: 1}, quantity.Amounts{corev1.ResourceCPU: math.MaxInt64, corev1.ResourceMemory: 1}, "100.00"},
		"a single millicore of a big cluster": {quantity.Amounts{corev1.ResourceCPU: 1}, size(1_000_000, 1), "0.00"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := AvailabilityScore(tc.available, tc.allocatable).String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	m, r := newFleet(t, 1000), multiCriteria()
	r.Exclude = []string{"cluster-000001", "cluster-000002"}
	constrained := *r
	constrained.Near, constrained.Apart = []string{"cluster-000003"}, []string{"cluster-000004"}
	constrained.Constraints = &brokerv1alpha1.Constraints{
		Regions: []string{"eu", "us"}, Zones: []string{"a"}, DataLocality: "genomes", NodeSelector: map[string]brokerv1alpha1.LabelValue{"arch": "arm64"},
		ClusterSelector: &brokerv1alpha1.ClusterSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "prod"}, MatchExpressions: []brokerv1alpha1.LabelExpression{{Key: "x", Operator: requirements.Exists}}},
		RequiredClaims:  map[string]brokerv1alpha1.LabelValue{"sla": ">=99.9"},
		MaxPrice:        &brokerv1alpha1.Money{Amount: "3", Currency: "EUR"},
	}
	packed := *r
	packed.PodShapes = []brokerv1alpha1.PodShape{podsOf(1, size(1, 1)), podsOf(2, size(2, 1))}
	packed.Data = dataOf(5*gib, "eu")
	packed.Constraints = &brokerv1alpha1.Constraints{ExcludeClusters: []string{"cluster-000005"}, MaxPrice: &brokerv1alpha1.Money{Amount: "3.5", Currency: "EUR"}}
	for i := range 1000 {
		m.SetShapes(fmt.Sprintf("cluster-%06d", i), []quantity.NodeShape{{Count: 3, Free: size(2, 4)}})
	}
	for name, r := range map[string]*Request{"plain": r, "constrained": &constrained, "packed": &packed} {
		if _, ok := Decide(m, r); ok == (name == "constrained") {
			t.Errorf("%s: has a winner: %v", name, ok)
		}
		if allocs := testing.AllocsPerRun(100, func() { Decide(m, r) }); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestNewNodesMustBeReadyBeforeTheReservationEnds(t *testing.T) {
	elastic := cluster("paris", 8, 8, 32, 32)
	elastic.ReadyWithin = 8 * time.Minute
	m := newMarketWith(t, elastic)
	for _, tt := range []struct {
		newNodes bool
		left     time.Duration
		want     Reason
	}{
		{true, 8 * time.Minute, ReadyTooLate}, {true, 8*time.Minute + 1, ""}, {true, 0, ""}, {false, time.Minute, ""},
	} {
		m.CountNewNodes(tt.newNodes)
		r := &Request{Requester: "rome", Amounts: size(8, 8), Left: tt.left}
		if got, ok := Check(m, r, "paris"); got.Reason != tt.want || ok != (tt.want == "") {
			t.Errorf("%+v: %+v, %t", tt, got, ok)
		}
		if _, ok := Decide(m, r); ok != (tt.want == "") {
			t.Errorf("%+v: decided %t", tt, ok)
		}
	}
}
