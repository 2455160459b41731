package decision

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// dailyBill returns the bill of a day at a price per hour.
func dailyBill(perHour, currency string) Bill {
	p := decimal.RequireFromString(perHour)
	return Bill{PerHour: p, Total: p.Mul(decimal.NewFromInt(24)), Currency: currency}
}

func TestBills(t *testing.T) {
	paris := cluster("paris", 16, 16, 64, 64).withPrices(t, "EUR", "0.04", "0.005")
	paris.Prices[gpu] = mustParsePrice(t, "2")
	paris.Region, paris.StoragePrice, paris.EgressPrice = "eu", mustParsePrice(t, "0.0001"), mustParsePrice(t, "0.09")
	m := newMarketWith(t, paris, cluster("oslo", 16, 16, 64, 64))
	m.SetRates(Rates{Base: "EUR", Per: map[string]Price{"USD": mustParsePrice(t, "1.25")}})
	cases := map[string]struct {
		id                       string
		request                  Request
		perHour, total, currency string
	}{
		"cores, GiB and pieces by the hour":         {request: Request{Amounts: size(2, 4).Add(quantity.Amounts{gpu: 1}), Duration: 90 * time.Minute}, perHour: "2.1", total: "3.15", currency: "EUR"},
		"without an end a day":                      {request: Request{Amounts: size(1, 0)}, perHour: "0.04", total: "0.96", currency: "EUR"},
		"a part of a GiB is exact":                  {request: Request{Amounts: quantity.Amounts{corev1.ResourceMemory: 1}, Duration: time.Hour}, perHour: "0.000000000004656612873077392578125", total: "0.000000000004656612873077392578125", currency: "EUR"},
		"data that is there is stored":              {request: Request{Amounts: size(1, 0), Duration: 10 * time.Hour, Data: dataOf(100*gib, "eu")}, perHour: "0.05", total: "0.5", currency: "EUR"},
		"data of another region leaves once":        {request: Request{Amounts: size(1, 0), Duration: 10 * time.Hour, Data: dataOf(100*gib, "us")}, perHour: "0.95", total: "9.5", currency: "EUR"},
		"data of nowhere is stored":                 {request: Request{Amounts: size(1, 0), Duration: 10 * time.Hour, Data: dataOf(100*gib, "")}, perHour: "0.05", total: "0.5", currency: "EUR"},
		"in another currency":                       {request: Request{Amounts: size(2, 4), Duration: time.Hour, Currency: "USD"}, perHour: "0.125", total: "0.125", currency: "USD"},
		"in one without a rate it stays in its own": {request: Request{Amounts: size(2, 4), Duration: time.Hour, Currency: "JPY"}, perHour: "0.1", total: "0.1", currency: "EUR"},
		"without prices":                            {id: "oslo", request: Request{Amounts: size(2, 4)}, perHour: "0", total: "0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.id == "" {
				tc.id = "paris"
			}
			want := Bill{decimal.RequireFromString(tc.perHour), decimal.RequireFromString(tc.total), tc.currency, nil}
			if diff := cmp.Diff(want, Judge(m, &tc.request, tc.id).Bill); diff != "" {
				t.Errorf("bill (-want +got):\n%s", diff)
			}
		})
	}
}

// The cheapest cluster depends on the request.
func TestCheapestIsComputedForRequest(t *testing.T) {
	cores := cluster("cores", 16, 16, 64, 64).withPrices(t, "EUR", "0.01", "0.05")
	memory := cluster("memory", 16, 16, 64, 64).withPrices(t, "EUR", "0.05", "0.01")
	far := cluster("far", 16, 16, 64, 64).withPrices(t, "USD", "0.001", "0.001")
	far.Region, far.EgressPrice = "us", mustParsePrice(t, "1")
	m := newMarketWith(t, cores, memory, far)
	m.SetRates(Rates{Base: "EUR", Per: map[string]Price{"USD": mustParsePrice(t, "1.1")}})
	cases := map[string]struct {
		request Request
		want    string
	}{
		"many cores where cores are cheap":    {Request{Amounts: size(8, 1), Constraints: &brokerv1alpha1.Constraints{ExcludeClusters: []string{"far"}}}, "cores"},
		"much memory where memory is":         {Request{Amounts: size(1, 8), Constraints: &brokerv1alpha1.Constraints{ExcludeClusters: []string{"far"}}}, "memory"},
		"another currency is compared too":    {Request{Amounts: size(8, 8)}, "far"},
		"but the way of the data is too much": {Request{Amounts: size(8, 1), Data: dataOf(100*gib, "eu")}, "cores"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := Decide(m, &tc.request); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// If an unpriced resource were free, a cluster that prices only CPU would win every request for
// GPUs.
func TestUnpricedResourceIsComparedAtTheHighestPrice(t *testing.T) {
	priced := func(id string, cpu, gpus string) Candidate {
		c := cluster(id, 16, 16, 64, 64).withPrices(t, "EUR", cpu, "0.005")
		c.Allocatable[gpu], c.Available[gpu] = 8, 8
		if gpus != "" {
			c.Prices[gpu] = mustParsePrice(t, gpus)
		}
		return c
	}
	withGPU := size(2, 4).Add(quantity.Amounts{gpu: 1})
	noRoom := priced("full", "0.01", "100")
	noRoom.Available[gpu] = 0
	cases := map[string]struct {
		candidates []Candidate
		amounts    quantity.Amounts
		want       string
		message    string
	}{
		"a cheaper CPU does not outweigh an equal GPU": {[]Candidate{priced("berlin", "0.05", "2"), priced("silent", "0.06", "")}, withGPU, "berlin", "names no price for nvidia.com/gpu, compared at the highest"},
		"the highest price counts":                     {[]Candidate{priced("berlin", "0.05", "2"), priced("oslo", "0.05", "3"), priced("silent", "0.05", "")}, withGPU, "berlin", "names no price for nvidia.com/gpu, compared at the highest"},
		"but only of clusters that could serve":        {[]Candidate{noRoom, priced("berlin", "0.05", "2"), priced("silent", "0.04", "")}, withGPU, "silent", "names no price for nvidia.com/gpu, compared at the highest"},
		"a price of 0 is free":                         {[]Candidate{priced("berlin", "0.05", "2"), priced("silent", "0.06", "0")}, withGPU, "silent", ""},
		"what nobody prices is free for all":           {[]Candidate{priced("berlin", "0.05", ""), priced("silent", "0.04", "")}, withGPU, "silent", ""},
		"what is not requested does not matter":        {[]Candidate{priced("berlin", "0.05", "2"), priced("silent", "0.04", "")}, size(2, 4), "silent", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMarketWith(t, tc.candidates...)
			r := &Request{Amounts: tc.amounts, Duration: time.Hour, Weights: Weights{Cost: 100}}
			if got, _ := Decide(m, r); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := Judge(m, r, "silent").Scores[0].Note; got != tc.message {
				t.Errorf("note %q, want %q", got, tc.message)
			}
		})
	}
}

func TestUnpricedResourceIsNotBilled(t *testing.T) {
	c := cluster("paris", 16, 16, 64, 64).withPrices(t, "EUR", "0.05", "0")
	c.Allocatable[gpu], c.Available[gpu] = 8, 8
	dear := c
	dear.ID, dear.Prices = "berlin", map[corev1.ResourceName]Price{gpu: mustParsePrice(t, "2")}
	r := &Request{Amounts: size(2, 4).Add(quantity.Amounts{gpu: 1}), Duration: time.Hour}
	v := Judge(newMarketWith(t, c, dear), r, "paris")
	if diff := cmp.Diff(Bill{decimal.RequireFromString("0.1"), decimal.RequireFromString("0.1"), "EUR", []string{string(gpu)}}, v.Bill); diff != "" || v.Rejection != nil {
		t.Errorf("rejected: %+v; bill (-want +got):\n%s", v.Rejection, diff)
	}
}

// A price is compared with the highest accepted price, in another currency, without rounding.
func TestComparingMoneyIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		money := rapid.Int64Range(1, 1<<50)
		r := Rates{Base: "EUR", Per: map[string]Price{"USD": Price(money.Draw(t, "USD")), "CHF": Price(money.Draw(t, "CHF"))}}
		amount, most := decimal.New(money.Draw(t, "amount"), -9), decimal.New(money.Draw(t, "most"), -9)
		codes := rapid.SampledFrom([]string{"EUR", "USD", "CHF"})
		from, to := codes.Draw(t, "from"), codes.Draw(t, "to")
		inBase := func(d decimal.Decimal, code string) *big.Rat {
			return new(big.Rat).Quo(d.Rat(), r.rateOf(code).Decimal().Rat())
		}
		if got, want := r.exceedsLimit(amount, from, most, to), inBase(amount, from).Cmp(inBase(most, to)) > 0; got != want {
			t.Fatalf("%s %s above %s %s: %t, want %t", amount, from, most, to, got, want)
		}
	})
}

func TestRatesAreValidated(t *testing.T) {
	cases := map[string]struct {
		rates Rates
		ok    bool
	}{
		"none":              {Rates{}, true},
		"some":              {Rates{Base: "EUR", Per: map[string]Price{"USD": 1}}, true},
		"no base":           {Rates{Base: "", Per: map[string]Price{"USD": 1}}, false},
		"a name":            {Rates{Base: "EUR", Per: map[string]Price{"dollar": 1}}, false},
		"one for the base":  {Rates{Base: "EUR", Per: map[string]Price{"EUR": money.Unit}}, false},
		"zero":              {Rates{Base: "EUR", Per: map[string]Price{"USD": 0}}, false},
		"less than nothing": {Rates{Base: "EUR", Per: map[string]Price{"USD": -1}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.rates.Validate(); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
