package metrics

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	costs "github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Metrics of the accounts. They are the sums of the current month, which every replica computes
// from the journal. A new leader therefore continues the counters of its predecessor. The counters
// begin at 0 every month.
var (
	reservedSecondsDesc = prometheus.NewDesc("broker_reserved_resource_seconds_total", "Reserved amounts × seconds that were accounted in this month (UTC).", []string{"requester", "provider", "resource", "unit"}, nil)
	usedSecondsDesc     = prometheus.NewDesc("broker_used_resource_seconds_total", "The part of broker_reserved_resource_seconds_total that pods requested, as far as it was observed.", []string{"requester", "provider", "resource", "unit"}, nil)
	savingsDesc         = prometheus.NewDesc("broker_savings_total", "What reservations would have cost at another price, minus what was paid, accounted in this month (UTC), in the currency; 0 if they cost more. Baseline dearest: the most expensive candidate; list: the administrator's list price.", []string{"requester", "provider", "currency", "baseline"}, nil)
	costDesc            = prometheus.NewDesc("broker_cost_total", "Cost of reservations that was accounted in this month (UTC), in the currency.", []string{"requester", "provider", "currency"}, nil)
)

// pairResource identifies the sums of one resource that one cluster reserved on another.
type pairResource struct {
	requester, provider string
	resource            corev1.ResourceName
}

// pairCurrency identifies the sum that one cluster paid another in one currency.
type pairCurrency struct{ requester, provider, currency string }

// costFigures are the sums of the current month, grouped by the labels of their series. Members
// that have no series of their own share a label, see Meter.
type costFigures struct {
	held, used map[pairResource]money.Sum
	paid       map[pairCurrency]money.Sum
	// dearest and list compare what was paid with other prices.
	dearest, list map[pairCurrency]costs.Comparison
}

// AddCosts adds the sums of the current month. label is Meter.Label.
func (f *Figures) AddCosts(book *costs.Book, label func(member string) string) {
	f.costs = costFigures{map[pairResource]money.Sum{}, map[pairResource]money.Sum{}, map[pairCurrency]money.Sum{}, map[pairCurrency]costs.Comparison{}, map[pairCurrency]costs.Comparison{}}
	book.EachOpen(costs.Month, func(key costs.Key, resource corev1.ResourceName, sums costs.Figures) {
		requester, provider := label(key.Requester), otherMembers
		if key.Provider != costs.Others {
			provider = label(key.Provider)
		}
		if !sums.Held.IsZero() {
			pair := pairResource{requester, provider, resource}
			f.costs.held[pair] = f.costs.held[pair].Plus(sums.Held)
			f.costs.used[pair] = f.costs.used[pair].Plus(sums.Used)
		}
		if key.Currency != "" {
			pair := pairCurrency{requester, provider, key.Currency}
			f.costs.paid[pair] = f.costs.paid[pair].Plus(sums.Money)
			addComparison(f.costs.dearest, pair, sums.Dearest)
			addComparison(f.costs.list, pair, sums.List)
		}
	})
}

func (f *costFigures) exportCosts(out sink) {
	for pair, held := range f.held {
		unit, per := unitOf(pair.resource)
		out.sendCounter(reservedSecondsDesc, toFloat(held)/per, pair.requester, pair.provider, string(pair.resource), unit)
		out.sendCounter(usedSecondsDesc, toFloat(f.used[pair])/per, pair.requester, pair.provider, string(pair.resource), unit)
	}
	for pair, paid := range f.paid {
		out.sendCounter(costDesc, paid.Money().InexactFloat64(), pair.requester, pair.provider, pair.currency)
	}
	saved := func(pair pairCurrency, c costs.Comparison, baseline string) {
		out.sendCounter(savingsDesc, c.Cost.Minus(c.Paid).Money().InexactFloat64(), pair.requester, pair.provider, pair.currency, baseline)
	}
	for pair := range f.paid {
		saved(pair, f.dearest[pair], "dearest")
	}
	for pair, c := range f.list { // empty without a list price
		saved(pair, c, "list")
	}
}

// addComparison adds a comparison to the one that a map holds for the pair. It ignores an empty
// comparison, so that the map has no entries for pairs without prices to compare.
func addComparison(to map[pairCurrency]costs.Comparison, pair pairCurrency, c costs.Comparison) {
	if c == (costs.Comparison{}) {
		return
	}
	sum := to[pair]
	sum.Add(c)
	to[pair] = sum
}

func unitOf(name corev1.ResourceName) (unit string, base float64) {
	switch {
	case name == corev1.ResourceCPU:
		return "core", 1000
	case quantity.InBytes(name):
		return "byte", 1
	}
	return "unit", 1
}

func toFloat(s money.Sum) float64 {
	f, _ := new(big.Float).SetInt(s.Int()).Float64()
	return f
}
