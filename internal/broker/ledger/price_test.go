package ledger

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
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
				if err := s.Apply(uint64(i+1), &e); err != nil {
					t.Fatal(err)
				}
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

func TestPricesThatAreComparedDifferentlyAreNotShared(t *testing.T) {
	s := newShared()
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
