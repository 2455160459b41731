package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// earning is the price of a placement in its provider. currency is "" if it has none, and unpriced are the resources
// that it leaves out.
type earning struct {
	perHour, once money.Price
	currency      string
	unpriced      []string
	since         time.Time
	// until is when the placement was given up; nil if it was not.
	until *time.Time
}

// earningOf reads the price from the receipt, which the agent has verified. It returns nil if there is no receipt.
func earningOf(p *agentv1alpha1.ProviderInstruction) *earning {
	if p.Spec.Receipt == nil {
		return nil
	}
	statement, err := receipt.Read(p.Spec.Receipt)
	if err != nil {
		return nil
	}
	a := &statement.Agreement
	e := &earning{unpriced: a.NotPriced(), since: a.HeldSince, until: a.EndedAt}
	if a.Price == nil {
		return e
	}
	e.currency = a.Price.Currency
	if e.perHour, err = money.ParsePrice(a.Price.PerHour); err != nil {
		return nil
	}
	if e.once, err = money.ParsePrice(cmp.Or(a.Price.Once, "0")); err != nil {
		return nil
	}
	return e
}

func (e *earning) describePrice() string {
	if e.currency == "" {
		return NotPriced
	}
	return WithNotPriced(e.perHour.String()+" "+e.currency, e.unpriced)
}

// soFar returns what the placement has earned until a time, at its present price; "" without a price.
func (e *earning) soFar(at time.Time) string {
	if e.currency == "" {
		return ""
	}
	if e.until != nil && e.until.Before(at) {
		at = *e.until
	}
	hours := decimal.NewFromInt(max(0, at.Sub(e.since).Milliseconds())).Div(decimal.NewFromInt(time.Hour.Milliseconds()))
	return e.perHour.Decimal().Mul(hours).Add(e.once.Decimal()).StringFixed(2) + " " + e.currency
}

// SumEarnings says for each currency what all placements that this member provides earn in an hour, and how many have
// resources without a price.
func SumEarnings(s *Snapshot) (texts []string) {
	sums, unpriced := map[string]money.Price{}, 0
	for _, p := range s.Member.ProviderInstructions {
		e := earningOf(p)
		if e == nil || e.until != nil {
			continue
		}
		if len(e.unpriced) > 0 {
			unpriced++
		}
		if e.currency != "" {
			sums[e.currency] = sums[e.currency].Plus(e.perHour)
		}
	}
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		texts = append(texts, "Earns "+sums[currency].String()+" "+currency+" per hour for all placements.")
	}
	if unpriced > 0 {
		texts = append(texts, countNoun(unpriced, "placement is", "placements are")+" not fully priced.")
	}
	return texts
}
