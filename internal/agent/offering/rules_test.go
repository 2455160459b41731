package offering

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const cpu = corev1.ResourceCPU

func TestLentAmounts(t *testing.T) {
	cases := map[string]struct {
		rules                      Rules
		allocatable, own, reserved int64
		lent, allocated            int64
		ratio                      int64
	}{
		"everything that is free":                           {allocatable: 10000, own: 4000, lent: 6000, allocated: 4000},
		"half of what is free":                              {rules: Rules{Withheld: Percentages{All: 50}}, allocatable: 10000, own: 4000, lent: 3000, allocated: 7000},
		"a share of its own":                                {rules: Rules{Withheld: Percentages{All: 50, Of: map[corev1.ResourceName]int64{cpu: 0}}}, allocatable: 10000, own: 4000, lent: 6000, allocated: 4000},
		"nothing":                                           {rules: Rules{Withheld: Percentages{All: 100}}, allocatable: 10000, own: 4000, lent: 0, allocated: 10000},
		"a part of one unit is not lent":                    {rules: Rules{Withheld: Percentages{All: 50}}, allocatable: 7, lent: 3, allocated: 4},
		"a tenth of everything is left free":                {rules: Rules{HeadroomShare: Percentages{All: 10}}, allocatable: 10000, own: 4000, lent: 5000, allocated: 5000},
		"an amount is left free":                            {rules: Rules{Headroom: quantity.Amounts{cpu: 2000}}, allocatable: 10000, own: 4000, lent: 4000, allocated: 6000},
		"more is to be left free than is":                   {rules: Rules{Headroom: quantity.Amounts{cpu: 8000}}, allocatable: 10000, own: 4000, lent: 0, allocated: 10000},
		"what half of it leaves free covers headroom":       {rules: Rules{Withheld: Percentages{All: 50}, Headroom: quantity.Amounts{cpu: 2000}}, allocatable: 10000, own: 4000, lent: 3000, allocated: 7000},
		"no more than the cap":                              {rules: Rules{Cap: quantity.Amounts{cpu: 1000}}, allocatable: 10000, own: 4000, lent: 1000, allocated: 9000},
		"a cap of nothing":                                  {rules: Rules{Cap: quantity.Amounts{cpu: 0}}, allocatable: 10000, lent: 0, allocated: 10000},
		"a cap beyond what is free":                         {rules: Rules{Cap: quantity.Amounts{cpu: 90000}}, allocatable: 10000, own: 4000, lent: 6000, allocated: 4000},
		"whole steps":                                       {rules: Rules{Step: quantity.Amounts{cpu: 4000}}, allocatable: 10000, own: 1000, lent: 8000, allocated: 2000},
		"less than a step":                                  {rules: Rules{Step: quantity.Amounts{cpu: 4000}}, allocatable: 10000, own: 7000, lent: 0, allocated: 10000},
		"less than the least":                               {rules: Rules{Minimum: quantity.Amounts{cpu: 4000}}, allocatable: 10000, own: 7000, lent: 0, allocated: 10000},
		"the least":                                         {rules: Rules{Minimum: quantity.Amounts{cpu: 3000}}, allocatable: 10000, own: 7000, lent: 3000, allocated: 7000},
		"what is left beside reservations is less than it":  {rules: Rules{Minimum: quantity.Amounts{cpu: 3000}}, allocatable: 10000, own: 2000, reserved: 6000, lent: 6000, allocated: 4000},
		"what is left beside reservations is the least":     {rules: Rules{Minimum: quantity.Amounts{cpu: 3000}}, allocatable: 10000, own: 2000, reserved: 5000, lent: 8000, allocated: 2000},
		"more is reserved than would be lent now":           {rules: Rules{Withheld: Percentages{All: 50}, Minimum: quantity.Amounts{cpu: 1000}}, allocatable: 10000, reserved: 8000, lent: 5000, allocated: 5000},
		"own pods have more than there is":                  {rules: Rules{Withheld: Percentages{All: 50}}, allocatable: 10000, own: 12000, lent: 0, allocated: 12000},
		"twice":                                             {rules: Rules{Ratios: quantity.Ratios{cpu: 200}}, allocatable: 10000, own: 4000, lent: 16000, allocated: 4000, ratio: 200},
		"half of what is there twice needs no ratio":        {rules: Rules{Ratios: quantity.Ratios{cpu: 200}, Withheld: Percentages{All: 50}}, allocatable: 10000, lent: 10000, allocated: 0},
		"a cap below what is there needs none either":       {rules: Rules{Ratios: quantity.Ratios{cpu: 200}, Cap: quantity.Amounts{cpu: 4000}}, allocatable: 10000, own: 4000, lent: 4000, allocated: 6000},
		"three quarters of what is there twice, by a ratio": {rules: Rules{Ratios: quantity.Ratios{cpu: 200}, Withheld: Percentages{All: 25}}, allocatable: 10000, own: 4000, lent: 12000, allocated: 4000, ratio: 160},
		"a ratio that is rounded keeps the rest back":       {rules: Rules{Ratios: quantity.Ratios{cpu: 200}, Cap: quantity.Amounts{cpu: 10050}}, allocatable: 10000, lent: 10050, allocated: 50, ratio: 101},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			own := quantity.Amounts{cpu: tc.own}
			got := tc.rules.Advertise(quantity.Amounts{cpu: tc.allocatable}, own, quantity.Amounts{cpu: tc.reserved})
			if got.Allocated[cpu] != tc.allocated || got.Ratios[cpu] != tc.ratio || got.Withheld[cpu] != tc.allocated-tc.own {
				t.Errorf("got %+v, want %d allocated at ratio %d", got, tc.allocated, tc.ratio)
			}
			if lent := max(brokerSees(tc.allocatable, got, nil), 0); lent != tc.lent {
				t.Errorf("a broker sees %d lent, want %d", lent, tc.lent)
			}
			if own[cpu] != tc.own {
				t.Error("what own pods request was changed")
			}
		})
	}
}

func TestMissingResourceIsNotAdvertised(t *testing.T) {
	rules := Rules{Cap: quantity.Amounts{"nvidia.com/gpu": 4}, Headroom: quantity.Amounts{"nvidia.com/gpu": 1}}
	got := rules.Advertise(quantity.Amounts{cpu: 10}, nil, nil)
	if len(got.Allocated)+len(got.Withheld) > 0 {
		t.Errorf("got %+v", got)
	}
	rules.Withheld.All = 50
	if got := rules.Advertise(quantity.Amounts{cpu: 10}, nil, nil); got.Allocated[cpu] != 5 {
		t.Errorf("without a pod: %+v", got)
	}
}

// brokerSees computes what a broker considers available if it caps ratios at a ceiling.
func brokerSees(allocatable int64, a Advertised, ceiling quantity.Ratios) int64 {
	ratios := a.Ratios
	if ceiling != nil {
		ratios = ratios.Within(ceiling)
	}
	return quantity.Amounts{cpu: allocatable}.Stretched(ratios)[cpu] - a.Allocated[cpu]
}

// situation is a set of rules and the amounts they apply to.
type situation struct {
	rules            Rules
	allocatable, own int64
}

func draw(t *rapid.T) situation {
	percent, amount := rapid.Int64Range(0, 100), rapid.Int64Range(0, 1000)
	if rapid.Bool().Draw(t, "huge") {
		amount = rapid.Int64Range(0, 1<<60)
	}
	s := situation{allocatable: amount.Draw(t, "allocatable"), own: amount.Draw(t, "own")}
	s.rules.Withheld.All = percent.Draw(t, "withheld")
	maybe := func(label string, values *rapid.Generator[int64], set func(int64)) {
		if rapid.Bool().Draw(t, "with "+label) {
			set(values.Draw(t, label))
		}
	}
	maybe("withheld cpu", percent, func(v int64) { s.rules.Withheld.Of = map[corev1.ResourceName]int64{cpu: v} })
	maybe("headroom share", percent, func(v int64) { s.rules.HeadroomShare.All = v })
	maybe("headroom", amount, func(v int64) { s.rules.Headroom = quantity.Amounts{cpu: v} })
	maybe("cap", amount, func(v int64) { s.rules.Cap = quantity.Amounts{cpu: v} })
	maybe("step", amount, func(v int64) { s.rules.Step = quantity.Amounts{cpu: v} })
	maybe("minimum", amount, func(v int64) { s.rules.Minimum = quantity.Amounts{cpu: v} })
	maybe("ratio", rapid.Int64Range(101, 1000), func(v int64) { s.rules.Ratios = quantity.Ratios{cpu: v} })
	return s
}

func (s *situation) lendable() int64 {
	return s.rules.Lendable(quantity.Amounts{cpu: s.allocatable}, quantity.Amounts{cpu: s.own})[cpu]
}

func (s *situation) advertise(reserved int64) Advertised {
	return s.rules.Advertise(quantity.Amounts{cpu: s.allocatable}, quantity.Amounts{cpu: s.own}, quantity.Amounts{cpu: reserved})
}

// naive computes the lent amount with integers of any size, directly from the definition of the
// rules.
func (s *situation) naive() int64 {
	n := func(v int64) *big.Int { return big.NewInt(v) }
	least := func(a, b *big.Int) *big.Int {
		if a.Cmp(b) < 0 {
			return a
		}
		return b
	}
	percent := func(of *big.Int, p Percentages) *big.Int {
		v, ok := p.Of[cpu]
		if !ok {
			v = p.All
		}
		out := new(big.Int).Mul(of, n(v))
		return out.Div(out, n(100))
	}
	whole := n(s.allocatable)
	if ratio, ok := s.rules.Ratios[cpu]; ok {
		whole = new(big.Int).Div(new(big.Int).Mul(whole, n(ratio)), n(100))
	}
	whole = least(whole, n(quantity.Limit))
	free := whole.Sub(whole, n(s.own))
	if free.Sign() < 0 {
		return 0
	}
	shared := Percentages{All: 100 - s.rules.Withheld.All}
	if v, ok := s.rules.Withheld.Of[cpu]; ok {
		shared.All = 100 - v
	}
	lent := percent(free, shared)
	beside := new(big.Int).Sub(free, percent(n(s.allocatable), s.rules.HeadroomShare))
	beside.Sub(beside, n(s.rules.Headroom[cpu]))
	lent = least(lent, beside)
	if most, ok := s.rules.Cap[cpu]; ok {
		lent = least(lent, n(most))
	}
	if lent.Sign() < 0 {
		return 0
	}
	if step := s.rules.Step[cpu]; step > 0 {
		lent.Sub(lent, new(big.Int).Mod(lent, n(step)))
	}
	return lent.Int64()
}

func TestLentAmountsFollowTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if got, want := s.lendable(), s.naive(); got != want {
			t.Fatalf("%d is lent, want %d", got, want)
		}
	})
}

// A broker that accepts the advertised ratios sees exactly what is lent. With a lower ceiling
// it never sees more than that. The advertised allocation is never below the requests of own
// pods.
func TestBrokerSeesLentCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		reserved := rapid.Int64Range(0, s.allocatable).Draw(t, "reserved")
		a, lent := s.advertise(reserved), s.lendable()
		if left := lent - reserved; left < s.rules.Minimum[cpu] {
			lent = min(lent, reserved)
		}
		if seen := max(brokerSees(s.allocatable, a, nil), 0); seen != lent {
			t.Fatalf("a broker sees %d, want %d: %+v", seen, lent, a)
		}
		ceiling := quantity.Ratios{cpu: rapid.Int64Range(100, 1000).Draw(t, "ceiling")}
		if seen := brokerSees(s.allocatable, a, ceiling); seen > lent {
			t.Fatalf("under a ceiling of %v a broker sees %d of %d", ceiling, seen, lent)
		}
		if s.own+lent <= s.allocatable && len(a.Ratios) > 0 && a.Withheld[cpu] > 0 {
			t.Fatalf("%+v asks for more than there is to lend %d beside %d", a, lent, s.own)
		}
		if a.Allocated[cpu] < s.own || a.Allocated[cpu]-a.Withheld[cpu] != s.own {
			t.Fatalf("%+v are allocated, %d are requested", a, s.own)
		}
		// A broker distrusts an advertisement with more allocated than allocatable. The
		// tolerance is a hundredth, because a ratio is rounded up by less than that.
		if most := max(s.own, s.allocatable) + s.allocatable/100 + 1; a.Allocated[cpu] > most && s.own+lent < quantity.Limit {
			t.Fatalf("%+v are allocated of %d", a, s.allocatable)
		}
	})
}

// A reservation reduces the remainder by exactly its own amount, until less than the minimum
// remains.
func TestReservationIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		var reserved int64
		for range rapid.IntRange(0, 5).Draw(t, "reservations") {
			left := brokerSees(s.allocatable, s.advertise(reserved), nil) - reserved
			granted := rapid.Int64Range(0, max(left, 0)).Draw(t, "granted")
			reserved += granted
			now := max(brokerSees(s.allocatable, s.advertise(reserved), nil)-reserved, 0)
			want := max(left-granted, 0)
			if want < s.rules.Minimum[cpu] {
				want = 0
			}
			if now != want {
				t.Fatalf("%d were left, %d are granted, %d are left: want %d", left, granted, now, want)
			}
			if reserved > s.lendable() {
				t.Fatalf("%d are reserved of %d", reserved, s.lendable())
			}
		}
	})
}

// Stricter rules never lend more.
func TestStricterRulesLendNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		stricter := s
		more := rapid.Int64Range(0, 100).Draw(t, "more")
		switch rapid.SampledFrom([]string{"share", "headroom", "cap", "own"}).Draw(t, "which") {
		case "share":
			stricter.rules.Withheld = Percentages{All: max(s.rules.Withheld.shareOf(cpu, 100), more)}
		case "headroom":
			stricter.rules.Headroom = s.rules.Headroom.Add(quantity.Amounts{cpu: more})
		case "cap":
			most, capped := s.rules.Cap[cpu]
			if !capped {
				most = s.allocatable
			}
			stricter.rules.Cap = quantity.Amounts{cpu: min(most, more)}
		case "own":
			stricter.own += more
		}
		if before, after := s.lendable(), stricter.lendable(); after > before {
			t.Fatalf("%d were lent, now %d", before, after)
		}
	})
}

func TestLeastRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, quantity.Limit).Draw(t, "amount")
		wanted := rapid.Int64Range(0, quantity.Limit).Draw(t, "wanted")
		hold := func(ratio int64) bool {
			var ratios quantity.Ratios
			return quantity.Amounts{cpu: amount}.Stretched(ratios.With(cpu, ratio))[cpu] >= wanted
		}
		ratio := leastRatio(amount, wanted)
		if ratio < 1000 && !hold(ratio) || ratio > 100 && hold(ratio-1) {
			t.Fatalf("%d hundredths of %d for %d", ratio, amount, wanted)
		}
	})
	if diff := cmp.Diff(int64(1000), leastRatio(0, 5)); diff != "" {
		t.Error(diff)
	}
}
