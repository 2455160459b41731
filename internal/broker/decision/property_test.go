package decision

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Generators with few distinct values, so that ties and exact fits are common.
var (
	someNames     = rapid.SampledFrom([]string{"athens", "berlin", "cairo", "dublin", "essen", "faro", "genoa", "rome"})
	someResources = rapid.SampledFrom([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, gpu})
	someAmounts   = rapid.MapOf(someResources, rapid.Custom(func(t *rapid.T) int64 {
		return rapid.Int64Range(-1, 4).Draw(t, "steps") * 1000
	}))
	somePrices     = rapid.MapOf(someResources, rapid.SampledFrom([]Price{0, 1, 2_000_000, 3_000_000_000, money.Max}))
	someCurrencies = rapid.SampledFrom([]string{"", "EUR", "USD"})
	someShapes     = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) quantity.NodeShape {
		return quantity.NodeShape{Count: rapid.Int64Range(-1, 3).Draw(t, "count"), Free: someAmounts.Draw(t, "free"), Labels: someLabels.Draw(t, "node labels")}
	}), 0, 3)
	someTerms = rapid.Custom(func(t *rapid.T) *lending.Policy {
		return lending.Policy{
			Paused:  rapid.IntRange(0, 9).Draw(t, "paused") == 0,
			Unready: rapid.SampledFrom([]string{"", "", lending.NotPeering}).Draw(t, "unready"),
			Allow:   rapid.SliceOfN(someNames, 0, 4).Draw(t, "allow"),
			Deny:    rapid.SliceOfN(someNames, 0, 1).Draw(t, "deny"),
		}.OrNil()
	})
	someRegions = rapid.SampledFrom([]string{"", "", "", "eu", "us"})
)

func anyCandidate(t *rapid.T) Candidate {
	return Candidate{
		ID:          someNames.Draw(t, "id"),
		Allocatable: someAmounts.Draw(t, "allocatable"),
		Available:   someAmounts.Draw(t, "available"),
		Prices:      somePrices.Draw(t, "prices"),
		Currency:    someCurrencies.Draw(t, "currency"),
		Reliability: rapid.Ptr(rapid.SampledFrom([]float64{0, 0.5, 0.7, 1}), true).Draw(t, "reliability"),
		Stale:       rapid.IntRange(0, 9).Draw(t, "stale") == 0,
		Denied:      rapid.IntRange(0, 9).Draw(t, "denied") == 0,
		Lending:     someTerms.Draw(t, "lending"),
		Region:      someRegions.Draw(t, "region"),
		Labels:      someLabels.Draw(t, "labels"),
		Claims:      someClaims.Draw(t, "claims"),

		StoragePrice: Price(rapid.Int64Range(0, 3).Draw(t, "storage") * int64(money.Unit)),
		EgressPrice:  Price(rapid.Int64Range(0, 3).Draw(t, "egress") * int64(money.Unit)),

		Shapes: someShapes.Draw(t, "shapes"),
	}
}

func anyRequest(t *rapid.T) *Request {
	weights := Weights(rapid.MapOfN(rapid.SampledFrom(Criteria()), rapid.IntRange(1, 100), 1, -1).Draw(t, "weights"))
	if rapid.Bool().Draw(t, "default weights") {
		weights = nil
	}
	r := &Request{
		Requester: someNames.Draw(t, "requester"),
		Amounts:   someAmounts.Draw(t, "amounts"),
		Exclude:   rapid.SliceOfN(someNames, 0, 2).Draw(t, "exclude"),
		Currency:  someCurrencies.Draw(t, "currency"),
		Weights:   weights,
	}
	if rapid.IntRange(0, 3).Draw(t, "in pods") == 0 {
		r.PodShapes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) brokerv1alpha1.PodShape {
			return podsOf(rapid.Int32Range(0, 4).Draw(t, "pods"), someAmounts.Draw(t, "each"))
		}), 1, 2).Draw(t, "kinds")
	}
	if rapid.Bool().Draw(t, "constrained") {
		drawConstraints(t, r)
	}
	return r
}

type pair struct{ from, to string }

// world is the expected content of a market, in plain maps.
type world struct {
	candidates map[string]Candidate
	links      map[pair]Link
	rates      Rates
}

func (w world) marketInOrder(t *rapid.T, order []string) *Market {
	m := NewMarket()
	m.SetRates(w.rates)
	for _, id := range order {
		runtest.Check(t, m.Upsert(w.candidates[id]))
	}
	for p, l := range w.links {
		m.SetLink(p.from, p.to, l)
	}
	return m
}

// anyMarket builds a market by adding, changing and removing clusters at random. It also returns
// the expected content.
func anyMarket(t *rapid.T) (*Market, world) {
	m, w := NewMarket(), world{candidates: map[string]Candidate{}, links: map[pair]Link{}}
	if rapid.Bool().Draw(t, "rates") {
		w.rates = Rates{Base: "EUR", Per: map[string]Price{"USD": Price(rapid.Int64Range(1, 3).Draw(t, "rate") * 500_000_000)}}
		m.SetRates(w.rates)
	}
	for range rapid.IntRange(0, 25).Draw(t, "steps") {
		id := someNames.Draw(t, "id")
		c, known := w.candidates[id]
		switch rapid.SampledFrom([]string{"upsert", "upsert", "upsert", "available", "shapes", "stale", "denied", "link", "remove"}).Draw(t, "step") {
		case "upsert":
			c = anyCandidate(t)
			runtest.Check(t, m.Upsert(c))
			w.candidates[c.ID] = c
			continue
		case "available":
			named := quantity.Amounts{}
			for name := range c.Allocatable.Max(c.Available) {
				named[name] = 0
			}
			free := someAmounts.Draw(t, "free")
			c.Available = named.Max(free)
			maps.DeleteFunc(c.Available, func(name corev1.ResourceName, v int64) bool {
				_, advertised := named[name]
				return v <= 0 && !advertised
			})
			wantTrue(t, known, m.SetAvailable(id, free))
		case "shapes":
			c.Shapes = someShapes.Draw(t, "shapes")
			wantTrue(t, known, m.SetShapes(id, c.Shapes))
		case "stale":
			c.Stale = !c.Stale
			wantTrue(t, known, m.SetStale(id, c.Stale))
		case "denied":
			c.Denied = !c.Denied
			wantTrue(t, known, m.SetDenied(id, c.Denied))
		case "link":
			l := Link{
				Measured:    rapid.Bool().Draw(t, "measured"),
				Unreachable: rapid.IntRange(0, 4).Draw(t, "unreachable") == 0,
				Denied:      rapid.IntRange(0, 4).Draw(t, "denied") == 0,
			}
			if l.Measured {
				l.Latency = time.Duration(rapid.IntRange(0, 4).Draw(t, "latency")) * 60 * time.Millisecond
			}
			from := someNames.Draw(t, "from")
			wantTrue(t, known, m.SetLink(from, id, l))
			if known {
				w.links[pair{from, id}] = l
			}
			continue
		case "remove":
			wantTrue(t, known, m.Remove(id))
			delete(w.candidates, id)
			for p := range w.links {
				if known && (p.from == id || p.to == id) {
					delete(w.links, p)
				}
			}
			continue
		}
		if known {
			w.candidates[id] = c
		}
	}
	return m, w
}

func wantTrue(t *rapid.T, want, got bool) {
	if want != got {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestDecideAgreesWithExplainWhateverHappenedBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := anyMarket(t)
		for range 3 {
			r := anyRequest(t)
			decided, ok := Decide(m, r)
			explained := explainAll(m, r)
			if decided != explained.Winner || ok != (explained.Winner != "") {
				t.Fatalf("decided %q, explained %q", decided, explained.Winner)
			}
			for _, v := range explained.Verdicts {
				rejection, able := Check(m, r, v.ID)
				if able != (v.Rejection == nil) || (!able && rejection != *v.Rejection) {
					t.Fatalf("check of %q gave %+v, explained %+v", v.ID, rejection, v)
				}
				alone := Judge(m, r, v.ID)
				if diff := cmp.Diff(v, alone); diff != "" {
					t.Fatalf("judged alone (-explained +alone):\n%s", diff)
				}
			}
		}
	})
}

func TestShortExplanationIsPrefixOfFullOne(t *testing.T) {
	large := newFleet(t, 500)
	rapid.Check(t, func(t *rapid.T) {
		m, r := large, &Request{Requester: "rome", Amounts: size(rapid.Int64Range(0, 500).Draw(t, "cores"), 1)}
		if rapid.Bool().Draw(t, "small") {
			m, _ = anyMarket(t)
			r = anyRequest(t)
		}
		n := rapid.IntRange(-1, 20).Draw(t, "n")
		want, got := explainAll(m, r), ExplainTop(m, r, n)
		want.Verdicts = want.Verdicts[:min(max(n, 0), len(want.Verdicts))]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-full +short):\n%s", diff)
		}
	})
}

func TestDecisionIgnoresHistoryOfMarket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, w := anyMarket(t)
		names := make([]string, 0, len(w.candidates))
		for id := range w.candidates {
			names = append(names, id)
		}
		slices.Sort(names)
		rebuilt := w.marketInOrder(t, rapid.Permutation(names).Draw(t, "order"))
		r := anyRequest(t)
		if diff := cmp.Diff(explainAll(rebuilt, r), explainAll(m, r)); diff != "" {
			t.Fatalf("(-rebuilt +grown):\n%s", diff)
		}
	})
}

func TestWinnerCanProvide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, w := anyMarket(t)
		r := anyRequest(t)
		winner, ok := Decide(m, r)
		if !ok {
			return
		}
		c := w.candidates[winner]
		if shortage, fits := quantity.Fits(r.Amounts, c.Available); !fits {
			t.Fatalf("%q is short: %+v", winner, shortage)
		}
		l := w.links[pair{r.Requester, winner}]
		if c.Stale || c.Denied || l.Denied || l.Unreachable || winner == r.Requester || slices.Contains(r.Exclude, winner) {
			t.Fatalf("%q must not win: %+v, %+v, %+v", winner, c, l, r)
		}
		requester, known := w.candidates[r.Requester]
		if c.Lending.Refuses(r.Requester) != "" || c.Lending.SkipsPeering() && known && !requester.Lending.SkipsPeering() {
			t.Fatalf("%q must not win: it does not lend to %q: %+v", winner, r.Requester, c.Lending)
		}
		if why := findViolated(r, c, w.rates); why != "" {
			t.Fatalf("%q must not win: %s: %+v, %+v", winner, why, c, r)
		}
		if len(r.PodShapes) == 1 && placePods(selectShapes(c.Shapes, r), r.PodShapes[0]) < int64(r.PodShapes[0].Count) {
			t.Fatalf("the pods %+v do not fit on %+v", r.PodShapes, c.Shapes)
		}
	})
}

// placePods puts equal pods on the nodes one by one, and returns how many fit.
func placePods(shapes []quantity.NodeShape, pods brokerv1alpha1.PodShape) int64 {
	var placed int64
	for _, s := range shapes {
		each := requirements.PodAmounts(&pods).Max(nil)
		if _, named := s.Free[corev1.ResourcePods]; named {
			each = each.Max(quantity.Amounts{corev1.ResourcePods: 1})
		}
		for range s.Count {
			for free := s.Free; placed < int64(pods.Count); placed++ {
				if _, fits := quantity.Fits(each, free); !fits {
					break
				}
				free = free.Sub(each)
			}
		}
	}
	return placed
}

func TestScoresStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := anyMarket(t)
		explained := explainAll(m, anyRequest(t))
		rejected := 0
		for _, n := range explained.Rejected {
			rejected += n
		}
		last := Score(100)
		for k, v := range explained.Verdicts {
			if v.Rejection != nil {
				rejected--
				continue
			}
			if v.Total < 0 || v.Total > last {
				t.Fatalf("%+v has place %d after a total of %v", v, k+1, last)
			}
			last = v.Total
			for _, s := range v.Scores {
				if s.Score < 0 || s.Score > 100 {
					t.Fatalf("%+v is out of bounds", s)
				}
			}
		}
		if rejected != 0 {
			t.Fatalf("the reasons do not count every rejection: %+v", explained)
		}
	})
}

func TestCheapestWinsAmongEqualResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMarket()
		want, cheapest := "", Price(0)
		for i, p := range rapid.SliceOfN(rapid.Int64Range(1, int64(1000*money.Unit)), 1, 20).Draw(t, "prices") {
			c := cluster(fmt.Sprintf("cluster-%02d", i), 8, 16, 32, 64)
			c.Currency, c.Prices = "EUR", map[corev1.ResourceName]Price{corev1.ResourceCPU: Price(p)}
			runtest.Check(t, m.Upsert(c))
			if want == "" || Price(p) < cheapest {
				want, cheapest = c.ID, Price(p)
			}
		}
		if got, _ := Decide(m, &Request{Requester: "rome", Amounts: size(2, 4)}); got != want {
			t.Fatalf("got %q, want %q at %s", got, want, cheapest)
		}
	})
}

func TestPrunedScanFindsSameWinner(t *testing.T) {
	m := newFleet(t, 3000)
	rapid.Check(t, func(t *rapid.T) {
		r := &Request{
			Requester: "rome",
			Amounts:   size(rapid.Int64Range(0, 400).Draw(t, "cores"), rapid.Int64Range(0, 1000).Draw(t, "memory")),
			Weights:   Weights(rapid.MapOfN(rapid.SampledFrom(Criteria()), rapid.IntRange(1, 100), 1, -1).Draw(t, "weights")),
		}
		decided, _ := Decide(m, r)
		if explained := explainAll(m, r); decided != explained.Winner {
			t.Fatalf("decided %q, explained %+v", decided, explained.Verdicts[:min(2, len(explained.Verdicts))])
		}
	})
}

// Of the candidates that can provide and have the winner's currency, the dearest has the highest
// price.
func TestDearestIsMostExpensiveOfThoseThatCouldServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := anyMarket(t)
		r := anyRequest(t)
		all := explainAll(m, r)
		own := func(id string) Bill { // own returns the bill of a cluster in the cluster's currency
			c := m.beginContest(r, true)
			defer c.releaseRequest()
			return c.billOf(int(m.row[id]))
		}
		if all.Winner == "" || own(all.Winner).Currency == "" {
			if all.Dearest != "" {
				t.Fatalf("the dearest is %q without a priced winner", all.Dearest)
			}
			return
		}
		highest, currency := own(all.Winner).PerHour, own(all.Winner).Currency
		canProvide := false
		for _, v := range all.Verdicts {
			if v.Rejection != nil {
				continue
			}
			canProvide = canProvide || v.ID == all.Dearest
			if bill := own(v.ID); bill.Currency == currency && bill.PerHour.GreaterThan(highest) {
				highest = bill.PerHour
			}
		}
		got := own(all.Dearest)
		// Prices are compared as floating-point numbers, so the dearest may be slightly below the
		// highest price.
		if near := highest.Mul(decimal.New(1, -9)); !canProvide || got.Currency != currency || got.PerHour.LessThan(highest.Sub(near)) {
			t.Fatalf("%q costs %v %s, the highest price is %v %s", all.Dearest, got.PerHour, got.Currency, highest, currency)
		}
		if short := ExplainTop(m, r, 1); short.Dearest != all.Dearest {
			t.Fatalf("a short explanation names %q, a full one %q", short.Dearest, all.Dearest)
		}
	})
}
