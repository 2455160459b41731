package decision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestConstraints(t *testing.T) {
	paris := cluster("paris", 16, 16, 64, 64).withPrices(t, "EUR", "0.05", "0")
	paris.Region, paris.Zone = "eu-west", "a"
	paris.Labels = map[string]string{"tier": "prod", "data.broker.fluidos.eu/genomes": "true"}
	paris.Claims = map[string]string{"availability": "99.95", "gdpr": "true"}
	paris.Shapes = []quantity.NodeShape{
		{Count: 2, Free: size(4, 16).Add(quantity.Amounts{gpu: 2}), Labels: map[string]string{"nvidia.com/gpu.product": "A100"}},
		{Count: 2, Free: size(4, 16)},
	}
	paris.Allocatable, paris.Available = paris.Allocatable.Add(quantity.Amounts{gpu: 4}), paris.Available.Add(quantity.Amounts{gpu: 4})
	m := newMarketWith(t, paris, cluster("oslo", 16, 16, 64, 64), cluster("zurich", 16, 16, 64, 64).withPrices(t, "CHF", "0.05", "0"))
	m.SetRates(Rates{Base: "EUR", Per: map[string]Price{"USD": mustParsePrice(t, "1.25")}})

	cases := map[string]struct {
		id      string
		request Request
		k       *brokerv1alpha1.Constraints
		want    Reason
		message string
	}{
		"one of the regions":   {k: &brokerv1alpha1.Constraints{Regions: []string{"us", "eu-west"}}},
		"none of the regions":  {k: &brokerv1alpha1.Constraints{Regions: []string{"us"}}, want: WrongLocation, message: "is in region eu-west, not in us"},
		"one of the zones":     {k: &brokerv1alpha1.Constraints{Zones: []string{"a"}}},
		"none of the zones":    {k: &brokerv1alpha1.Constraints{Zones: []string{"b", "c"}}, want: WrongLocation, message: "is in zone a, not in b, c"},
		"a region for nobody":  {id: "oslo", k: &brokerv1alpha1.Constraints{Regions: []string{"us"}}, want: WrongLocation, message: "advertises no region; us requested"},
		"included":             {k: &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}},
		"not included":         {id: "oslo", k: &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}, want: NotIncluded, message: "not among the clusters"},
		"excluded":             {k: &brokerv1alpha1.Constraints{ExcludeClusters: []string{"paris", "nobody"}}, want: Excluded, message: "excluded"},
		"labels":               {k: &brokerv1alpha1.Constraints{ClusterSelector: &brokerv1alpha1.ClusterSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "prod"}}}},
		"other labels":         {k: &brokerv1alpha1.Constraints{ClusterSelector: &brokerv1alpha1.ClusterSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"tier": "dev"}}}, want: LabelsDoNotMatch, message: "labels"},
		"a label too many":     {k: &brokerv1alpha1.Constraints{ClusterSelector: &brokerv1alpha1.ClusterSelector{MatchExpressions: []brokerv1alpha1.LabelExpression{{Key: "tier", Operator: requirements.DoesNotExist}}}}, want: LabelsDoNotMatch},
		"a label less is fine": {id: "oslo", k: &brokerv1alpha1.Constraints{ClusterSelector: &brokerv1alpha1.ClusterSelector{MatchExpressions: []brokerv1alpha1.LabelExpression{{Key: "tier", Operator: requirements.NotIn, Values: []string{"prod"}}}}}},
		"data that is there":   {k: &brokerv1alpha1.Constraints{DataLocality: "genomes"}},
		"data that is not":     {id: "oslo", k: &brokerv1alpha1.Constraints{DataLocality: "genomes"}, want: DataElsewhere, message: "data set genomes (label data.broker.fluidos.eu/genomes)"},
		"claims":               {k: &brokerv1alpha1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"availability": ">=99.9", "gdpr": ""}}},
		"a claim too small":    {k: &brokerv1alpha1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"availability": ">=99.99"}}, want: ClaimNotMade, message: "claims availability 99.95, >=99.99 is required"},
		"a claim not made":     {k: &brokerv1alpha1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"iso27001": ""}}, want: ClaimNotMade, message: "does not claim iso27001"},
		"near to what is here": {request: Request{Near: []string{"oslo", "paris"}}},
		"near to another":      {request: Request{Near: []string{"oslo"}}, want: AffinityNotMet, message: "which are on oslo"},
		"apart from this one":  {request: Request{Apart: []string{"paris"}}, want: AntiAffinityNotMet, message: "groups in antiAffinity"},
		"a GPU of the model": {
			request: Request{Amounts: quantity.Amounts{gpu: 4}}, k: &brokerv1alpha1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"nvidia.com/gpu.product": "A100"}},
		},
		"more CPU than nodes of the model have": {
			request: Request{Amounts: size(9, 1)}, k: &brokerv1alpha1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"nvidia.com/gpu.product": "A100"}},
			want: NodesDoNotMatch, message: "has 8 cpu free on the nodes that the request selects and tolerates, 9 needed",
		},
		"another model": {
			request: Request{Amounts: quantity.Amounts{gpu: 1}}, k: &brokerv1alpha1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"nvidia.com/gpu.product": "H100"}},
			want: NodesDoNotMatch, message: "has 0 nvidia.com/gpu free on the nodes that the request selects and tolerates, 1 needed",
		},
		"pods on nodes of the model alone": {
			request: Request{Amounts: size(12, 3), PodShapes: []brokerv1alpha1.PodShape{podsOf(3, size(4, 1))}},
			k:       &brokerv1alpha1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"nvidia.com/gpu.product": "A100"}},
			want:    NodesDoNotMatch,
		},
		"exactly the highest price": {request: Request{Amounts: size(3, 0)}, k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "0.15", Currency: "EUR"}}},
		"a billionth too expensive": {
			request: Request{Amounts: size(3, 0)}, k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "0.149999999", Currency: "EUR"}},
			want: TooExpensive, message: "costs 0.15 EUR an hour, at most 0.149999999 is accepted",
		},
		"exactly the highest price in another currency": {request: Request{Amounts: size(3, 0)}, k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "0.1875", Currency: "USD"}}},
		"a billionth too expensive in another currency": {
			request: Request{Amounts: size(3, 0)}, k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "0.187499999", Currency: "USD"}},
			want: TooExpensive, message: "costs 0.1875 USD an hour",
		},
		"no price at all": {id: "oslo", k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "1", Currency: "EUR"}}, want: NoPrice, message: "names no price"},
		"no price for one resource": {
			request: Request{Amounts: size(1, 0).Add(quantity.Amounts{gpu: 1})}, k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "1", Currency: "EUR"}},
			want: NoPrice, message: "names no price for nvidia.com/gpu",
		},
		"no rate to compare": {id: "zurich", k: &brokerv1alpha1.Constraints{MaxPrice: &brokerv1alpha1.Money{Amount: "1", Currency: "EUR"}}, want: NoPrice, message: "is priced in CHF, for which there is no rate to EUR"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := tc.request
			r.Requester, r.Constraints = "rome", tc.k
			if r.Amounts == nil {
				r.Amounts = size(1, 1)
			}
			if tc.id == "" {
				tc.id = "paris"
			}
			got, ok := Check(m, &r, tc.id)
			if got.Reason != tc.want || ok != (tc.want == "") || !strings.Contains(got.Message(), tc.message) {
				t.Errorf("%t %q: %s, want %q: %s", ok, got.Reason, got.Message(), tc.want, tc.message)
			}
		})
	}
}

// Berlin has 8 cores on ordinary nodes, 16 on nodes for GPUs, and 4 on a spot node for GPUs.
func TestTaintedNodesCountForRequestsThatTolerateThem(t *testing.T) {
	dedicated := []brokerv1alpha1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}}
	berlin := cluster("berlin", 28, 28, 112, 112)
	berlin.Shapes = []quantity.NodeShape{
		{Count: 2, Free: size(4, 16)},
		{Count: 2, Free: size(8, 32), Taints: dedicated, Labels: map[string]string{"gpu": "a100"}},
		{Count: 1, Free: size(4, 16), Taints: append([]brokerv1alpha1.Taint{{Key: "spot", Effect: "NoExecute"}}, dedicated...)},
	}
	m := newMarketWith(t, berlin, cluster("oslo", 16, 16, 64, 64))
	gpu := []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
	all := append([]brokerv1alpha1.Toleration{{Key: "spot"}}, gpu...)
	for name, tc := range map[string]struct {
		request     Request
		tolerations []brokerv1alpha1.Toleration
		nodes       map[string]brokerv1alpha1.LabelValue
		id          string
		want        Reason
		message     string
	}{
		"as much as ordinary nodes have":          {request: Request{Amounts: size(8, 1)}},
		"more than ordinary nodes have":           {request: Request{Amounts: size(9, 1)}, want: NodesDoNotMatch, message: "has 8 cpu free on the nodes that the request selects and tolerates, 9 needed"},
		"as much as tolerated nodes have":         {request: Request{Amounts: size(24, 1)}, tolerations: gpu},
		"more than tolerated nodes have":          {request: Request{Amounts: size(25, 1)}, tolerations: gpu, want: NodesDoNotMatch},
		"all nodes":                               {request: Request{Amounts: size(28, 1)}, tolerations: all},
		"a toleration of something else":          {request: Request{Amounts: size(9, 1)}, tolerations: []brokerv1alpha1.Toleration{{Key: "other"}}, want: NodesDoNotMatch},
		"tolerated nodes with a label":            {request: Request{Amounts: size(16, 1)}, tolerations: gpu, nodes: map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}},
		"a label of nodes that are not tolerated": {request: Request{Amounts: size(1, 1)}, nodes: map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}, want: NodesDoNotMatch},
		"pods that need a tolerated node":         {request: Request{Amounts: size(8, 1), PodShapes: []brokerv1alpha1.PodShape{podsOf(1, size(8, 1))}}, tolerations: gpu},
		"pods that need a node not tolerated":     {request: Request{Amounts: size(8, 1), PodShapes: []brokerv1alpha1.PodShape{podsOf(1, size(8, 1))}}, want: ShapeDoesNotFit},
		"pods of two sizes, not tolerated":        {request: Request{Amounts: size(7, 2), PodShapes: []brokerv1alpha1.PodShape{podsOf(1, size(6, 1)), podsOf(1, size(1, 1))}}, want: ShapeDoesNotFit},
		"a cluster without tainted nodes":         {request: Request{Amounts: size(16, 1)}, id: "oslo"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tc.request
			r.Requester, r.Constraints = "rome", &brokerv1alpha1.Constraints{Tolerations: tc.tolerations, NodeSelector: tc.nodes}
			if tc.id == "" {
				tc.id = "berlin"
			}
			got, ok := Check(m, &r, tc.id)
			if got.Reason != tc.want || ok != (tc.want == "") || !strings.Contains(got.Message(), tc.message) {
				t.Errorf("%t %q: %s, want %q: %s", ok, got.Reason, got.Message(), tc.want, tc.message)
			}
		})
	}
}

// Pods without the device do not tolerate the taint that is named after it.
func TestNodesTaintedForADeviceCountForRequestsOfIt(t *testing.T) {
	berlin := cluster("berlin", 12, 12, 48, 48)
	berlin.Allocatable, berlin.Available = berlin.Allocatable.Add(quantity.Amounts{gpu: 2}), berlin.Available.Add(quantity.Amounts{gpu: 2})
	berlin.Shapes = []quantity.NodeShape{
		{Count: 1, Free: size(4, 16)},
		{Count: 1, Free: size(8, 32).Add(quantity.Amounts{gpu: 2}), Taints: []brokerv1alpha1.Taint{{Key: string(gpu), Value: "present", Effect: "NoSchedule"}}},
	}
	m := newMarketWith(t, berlin)
	for name, tc := range map[string]struct {
		cpu, gpus int64
		want      Reason
	}{
		"cpu on other nodes":           {cpu: 4},
		"cpu on nodes of the device":   {cpu: 5, want: NodesDoNotMatch},
		"a device, and cpu beside it":  {cpu: 8, gpus: 1},
		"a device, and cpu everywhere": {cpu: 12, gpus: 2},
	} {
		r := Request{Requester: "rome", Amounts: size(tc.cpu, 1)}
		r.Amounts[gpu] = tc.gpus
		if got, ok := Check(m, &r, "berlin"); got.Reason != tc.want || ok != (tc.want == "") {
			t.Errorf("%s: %t %s: %s, want %q", name, ok, got.Reason, got.Message(), tc.want)
		}
	}
}

func TestSeveralSizesOfPods(t *testing.T) {
	nodes := []quantity.NodeShape{{Count: 2, Free: size(4, 16)}, {Count: 1, Free: size(8, 16)}}
	cases := map[string]struct {
		pods []brokerv1alpha1.PodShape
		have int64
		fits bool
	}{
		"they share a node":                {[]brokerv1alpha1.PodShape{podsOf(1, size(3, 1)), podsOf(3, size(4, 1)), podsOf(1, size(1, 1))}, 5, true},
		"the small ones leave room":        {[]brokerv1alpha1.PodShape{podsOf(8, size(1, 1)), podsOf(1, size(8, 1))}, 9, true},
		"the sums fit and the pods do not": {[]brokerv1alpha1.PodShape{podsOf(2, size(5, 1)), podsOf(1, size(1, 1))}, 2, false},
		"none is not wanted":               {[]brokerv1alpha1.PodShape{podsOf(0, size(99, 1)), podsOf(1, size(1, 1))}, 1, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster("paris", 16, 16, 64, 64)
			c.Shapes = nodes
			got, ok := Check(newMarketWith(t, c), &Request{Amounts: requirements.SumPods(tc.pods), PodShapes: tc.pods}, "paris")
			if ok != tc.fits || !ok && got.Have != tc.have {
				t.Errorf("%t: %+v", ok, got)
			}
		})
	}
}

// Pods that Check accepts fit on the nodes, also according to somehowFits.
func TestPackedPodsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quantity.NodeShape {
			return quantity.NodeShape{Count: rapid.Int64Range(1, 3).Draw(t, "count"), Free: size(rapid.Int64Range(0, 8).Draw(t, "cpu"), rapid.Int64Range(0, 8).Draw(t, "memory"))}
		}), 1, 4).Draw(t, "nodes")
		pods := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) brokerv1alpha1.PodShape {
			return podsOf(rapid.Int32Range(1, 4).Draw(t, "count"), size(rapid.Int64Range(1, 4).Draw(t, "cpu"), rapid.Int64Range(0, 4).Draw(t, "memory")))
		}), 2, 3).Draw(t, "pods")
		whole := size(1000, 1000)
		m := NewMarket()
		runtest.Check(t, m.Upsert(Candidate{ID: "paris", Allocatable: whole, Available: whole, Shapes: shapes}))
		_, ok := Check(m, &Request{Amounts: requirements.SumPods(pods), PodShapes: pods}, "paris")
		var nodes []quantity.Amounts
		for _, s := range shapes {
			for range s.Count {
				nodes = append(nodes, s.Free)
			}
		}
		var all []quantity.Amounts
		for _, p := range pods {
			for range p.Count {
				all = append(all, requirements.PodAmounts(&p))
			}
		}
		if ok && !somehowFits(nodes, all) {
			t.Fatalf("%v do not fit on %v", pods, shapes)
		}
	})
}

// somehowFits reports whether the pods fit on the nodes. It tries every node for every pod.
func somehowFits(nodes, pods []quantity.Amounts) bool {
	if len(pods) == 0 {
		return true
	}
	for i, free := range nodes {
		if slices.ContainsFunc(nodes[:i], free.Equal) {
			continue
		}
		if _, fits := quantity.Fits(pods[0], free); !fits {
			continue
		}
		rest := slices.Clone(nodes)
		rest[i] = free.Sub(pods[0])
		if somehowFits(rest, pods[1:]) {
			return true
		}
	}
	return false
}

var (
	someLabels = rapid.MapOfN(rapid.SampledFrom([]string{"tier", "arch", "data.broker.fluidos.eu/a"}), rapid.SampledFrom([]string{"x", "y"}), 0, 2)
	someClaims = rapid.MapOfN(rapid.SampledFrom([]string{"sla", "gdpr"}), rapid.SampledFrom([]string{"1", "2.5", "yes"}), 0, 2)
)

func drawConstraints(t *rapid.T, r *Request) {
	names := func(what string) []string { return rapid.SliceOfN(someNames, 0, 2).Draw(t, what) }
	maybe := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
	k := &brokerv1alpha1.Constraints{ExcludeClusters: names("excluded")}
	r.Constraints, r.Apart = k, names("apart")
	if maybe("near") {
		r.Near = names("near to")
	}
	if maybe("include") {
		k.IncludeClusters = names("included")
	}
	if maybe("regions") {
		k.Regions = []string{rapid.SampledFrom([]string{"eu", "us", "asia"}).Draw(t, "region wanted")}
	}
	if maybe("selector") {
		k.ClusterSelector = &brokerv1alpha1.ClusterSelector{MatchExpressions: []brokerv1alpha1.LabelExpression{{
			Key: "tier", Operator: rapid.SampledFrom([]string{requirements.In, requirements.NotIn, requirements.Exists, requirements.DoesNotExist}).Draw(t, "operator"), Values: []string{"x"},
		}}}
	}
	if maybe("labels") {
		k.ClusterSelector = &brokerv1alpha1.ClusterSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"arch": "x"}}
	}
	if maybe("data") {
		k.DataLocality = "a"
	}
	if maybe("claim") {
		k.RequiredClaims = rapid.SampledFrom([]map[string]brokerv1alpha1.LabelValue{{"sla": ""}, {"sla": ">=2"}, {"gdpr": "yes"}}).Draw(t, "claimed")
	}
	if maybe("nodes") {
		k.NodeSelector = map[string]brokerv1alpha1.LabelValue{"arch": "x"}
	}
	if maybe("highest price") {
		k.MaxPrice = &brokerv1alpha1.Money{Amount: rapid.SampledFrom([]brokerv1alpha1.Price{"0", "1", "6", "1000"}).Draw(t, "at most"), Currency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(t, "in")}
	}
	if maybe("with data") {
		r.Data = dataOf(rapid.Int64Range(0, 2).Draw(t, "GiB")*gib, "eu")
	}
}

// findViolated returns the first constraint that a candidate does not meet; "" if it meets all.
// Only for the price does it use a market.
func findViolated(r *Request, c Candidate, rates Rates) string {
	k := r.Constraints
	switch {
	case len(r.Near) > 0 && !slices.Contains(r.Near, c.ID):
		return "near"
	case slices.Contains(r.Apart, c.ID):
		return "apart"
	case k == nil:
		return ""
	case len(k.Regions) > 0 && !slices.Contains(k.Regions, c.Region):
		return "region"
	case len(k.IncludeClusters) > 0 && !slices.Contains(k.IncludeClusters, c.ID), slices.Contains(k.ExcludeClusters, c.ID):
		return "names"
	case !requirements.Selects(k.ClusterSelector, c.Labels):
		return "labels"
	case k.DataLocality != "" && c.Labels[requirements.DataLabel(k.DataLocality)] == "":
		return "data"
	}
	for name, required := range k.RequiredClaims {
		claim, err := requirements.ParseClaim(string(required))
		if have, made := c.Claims[name]; err != nil || !made || !claim.MetBy(have) {
			return "claim"
		}
	}
	sum := quantity.Amounts{}
	for _, s := range selectShapes(c.Shapes, r) {
		sum = sum.Add(s.Free.Max(nil).Times(max(s.Count, 0)))
	}
	if _, fits := quantity.Fits(r.Amounts, sum); len(k.NodeSelector) > 0 && !fits {
		return "nodes"
	}
	if k.MaxPrice == nil {
		return ""
	}
	m := NewMarket()
	m.SetRates(rates)
	if err := m.Upsert(c); err != nil {
		return err.Error()
	}
	for name, amount := range r.Amounts {
		if _, priced := c.Prices[name]; amount > 0 && !priced {
			return "no price"
		}
	}
	bill := Judge(m, r, c.ID).Bill
	if _, ok := rates.Convert(bill.PerHour, bill.Currency, k.MaxPrice.Currency); !ok {
		return "rate"
	}
	if most, err := money.ParsePrice(string(k.MaxPrice.Amount)); err != nil || bill.Currency == "" || rates.exceedsLimit(bill.PerHour, bill.Currency, most.Decimal(), k.MaxPrice.Currency) {
		return "price"
	}
	return ""
}

func selectShapes(shapes []quantity.NodeShape, r *Request) []quantity.NodeShape {
	if r.Constraints == nil {
		return shapes
	}
	return slices.DeleteFunc(slices.Clone(shapes), func(s quantity.NodeShape) bool { return !requirements.HasAll(s.Labels, r.Constraints.NodeSelector) })
}

// Of the candidates that can serve the request without constraints, exactly those are rejected in
// which findViolated finds a violated constraint.
func TestConstraintsRejectOnlyViolatingCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, w := anyMarket(t)
		r := &Request{Requester: someNames.Draw(t, "requester"), Amounts: someAmounts.Draw(t, "amounts")}
		drawConstraints(t, r)
		free := &Request{Requester: r.Requester, Amounts: r.Amounts}
		for id, c := range w.candidates {
			without, could := Check(m, free, id)
			with, can := Check(m, r, id)
			why := findViolated(r, c, w.rates)
			switch {
			case !could && can:
				t.Fatalf("%q: %q without constraints, accepted with them", id, without.Reason)
			case could && can != (why == ""):
				t.Fatalf("%q: %q, by the oracle %q: %+v, %+v", id, with.Reason, why, c, r.Constraints)
			}
		}
		if diff := cmp.Diff(w.rates, m.rates); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A message names at most ten clusters, so its length does not grow with their number.
func TestFirstOfManyClustersAreNamed(t *testing.T) {
	m := newMarketWith(t, cluster("paris", 16, 16, 64, 64))
	var near []string
	for i := range 12 {
		near = append(near, fmt.Sprintf("c%d", i))
	}
	got := Judge(m, &Request{Amounts: size(1, 1), Near: near}, "paris").Rejection.Message()
	if want := "holds no reservation of the groups in affinity, which are on c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
