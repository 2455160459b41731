package ledger

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

type rates = map[corev1.ResourceName]money.Price

func TestPriceIsComparedOnlyWithOnesThatFit(t *testing.T) {
	tests := map[string]struct {
		dearest *Price
		refused bool
	}{
		"a higher one":              {dearest: &Price{Currency: "EUR", Rates: rates{"cpu": money.Unit}}},
		"another currency":          {&Price{Currency: "USD", Rates: rates{"cpu": money.Unit}}, true},
		"a negative rate":           {&Price{Currency: "EUR", Rates: rates{"cpu": -1}}, true},
		"other resources":           {&Price{Currency: "EUR", Rates: rates{"memory": 1}}, true},
		"more resources":            {&Price{Currency: "EUR", Rates: rates{"cpu": money.Unit, "memory": 1}}, true},
		"one that is compared, too": {&Price{Currency: "EUR", Rates: rates{"cpu": money.Unit}, Dearest: &Price{Currency: "EUR", Rates: rates{"cpu": money.Unit}}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := New()
			o := offer(paris, cpu(8000))
			o.Change.(*Offer).Cost = &brokerv1alpha1.Cost{CPUCost: "0.01", Currency: "EUR"}
			for i, e := range []Event{offer(rome, nil), o} {
				runtest.Check(t, s.Apply(uint64(i+1), &e))
			}
			e := priced(reserve("r", paris, cpu(1000)), &Price{Currency: "EUR", Rates: rates{"cpu": money.Unit / 100}, Dearest: test.dearest})
			if err := s.Apply(3, &e); errors.Is(err, ErrMalformed) != test.refused || (err != nil) != test.refused {
				t.Errorf("got %v, want that it is refused: %t", err, test.refused)
			}
		})
	}
}

func TestDearestHasRatesForTheSameResources(t *testing.T) {
	own := &Price{Currency: "EUR", Rates: rates{"cpu": 2, "memory": 3}}
	request := &Request{Amounts: quantity.Amounts{"cpu": 1000}}
	tests := map[string]struct{ dearest, want *Price }{
		"more expensive":             {&Price{Currency: "EUR", Rates: rates{"cpu": 5, "gpu": 9}, Once: 4}, &Price{Currency: "EUR", Rates: rates{"cpu": 5, "memory": 3}, Once: 4}},
		"cheaper":                    {&Price{Currency: "EUR", Rates: rates{"cpu": 1}}, nil},
		"as expensive":               {&Price{Currency: "EUR", Rates: rates{"cpu": 2}}, nil},
		"expensive for other things": {&Price{Currency: "EUR", Rates: rates{"cpu": 2, "memory": 9}}, nil},
		"in another currency":        {&Price{Currency: "USD", Rates: rates{"cpu": 5}}, nil},
		"expensive without a price":  {&Price{Currency: "EUR", Rates: rates{"cpu": 5, "memory": 0}, NotPriced: []corev1.ResourceName{"memory"}}, &Price{Currency: "EUR", Rates: rates{"cpu": 5, "memory": 3}}},
		"unknown":                    {nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := &Price{Currency: "EUR", Rates: rates{"cpu": 2, "memory": 3}, Dearest: test.want}
			if diff := cmp.Diff(want, own.ComparedWith(test.dearest, request)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := (*Price)(nil).ComparedWith(own, request); got != nil {
		t.Errorf("no price is compared with %v", got)
	}
}

// Whether a resource is free or not priced is locked with the grant, like a rate.
func TestFreeAndNotPricedDiffer(t *testing.T) {
	s, o := New(), offer(paris, quantity.Amounts{"cpu": 8000, "memory": 8 << 30, gpu: 2})
	cost := brokerv1alpha1.Cost{CPUCost: "0.01", MemoryCost: "0", Currency: "EUR"}
	o.Change.(*Offer).Cost = &cost
	request := &Request{Amounts: quantity.Amounts{"cpu": 1000, "memory": 1 << 30, gpu: 1}}
	apply := func(at uint64, e Event) error { return s.Apply(at, &e) }
	if err := errors.Join(apply(1, offer(rome, nil)), apply(2, o)); err != nil {
		t.Fatal(err)
	}
	locked := s.Cluster(paris).PriceFor(request)
	if want := []corev1.ResourceName{gpu}; !slices.Equal(locked.NotPriced, want) || !locked.Prices("memory") || locked.Prices(gpu) {
		t.Errorf("not priced: %v, want %v", locked.NotPriced, want)
	}
	free := &Price{Currency: "EUR", Rates: locked.Rates}
	if err := apply(3, priced(reserve("r", paris, request.Amounts), free)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a grant for nothing is accepted: %v", err)
	}
	later := offer(paris, o.Change.(*Offer).Allocatable)
	later.Change.(*Offer).Cost = &brokerv1alpha1.Cost{CPUCost: "0.01", MemoryCost: "0", ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{gpu: "2"}, Currency: "EUR"}
	if err := errors.Join(apply(3, priced(reserve("r", paris, request.Amounts), locked)), apply(4, acknowledge("r", 1)), apply(5, later)); err != nil {
		t.Fatal(err)
	}
	if c := s.Reservation("r").Cost(); !slices.Equal(c.NotPriced, locked.NotPriced) || c.PerHour != money.Unit/100 {
		t.Errorf("it costs %+v", c)
	}
	if a := New().shared; a.internPrice(free) == a.internPrice(locked) {
		t.Error("a free and an unpriced resource share a price")
	}
}

func TestPricesThatAreComparedDifferentlyAreNotShared(t *testing.T) {
	s := New().shared
	plain := func() *Price { return &Price{Currency: "EUR", Rates: rates{"cpu": 2}} }
	compared := func(rate money.Price) *Price {
		p := plain()
		p.Dearest = &Price{Currency: "EUR", Rates: rates{"cpu": rate}}
		return p
	}
	a, b, c := s.internPrice(plain()), s.internPrice(compared(5)), s.internPrice(compared(6))
	if a == b || b == c || b != s.internPrice(compared(5)) || b.Equal(c) || !b.HasTermsOf(c) {
		t.Errorf("shared: %p %v, %p %v, %p %v", a, a, b, b, c, c)
	}
}
