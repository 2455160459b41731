package view

import (
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// earning is the price of a placement in its provider.
type earning struct {
	perHour, once money.Price
	currency      string
	since         time.Time
	// until is when the placement was given up; nil if it was not.
	until *time.Time
}

// earningOf reads the price from the receipt, which the agent has verified. It returns nil if there is none.
func earningOf(p *agentv1alpha1.ProviderInstruction) *earning {
	if p.Spec.Receipt == nil {
		return nil
	}
	statement, err := receipt.Read(p.Spec.Receipt)
	if err != nil || statement.Agreement.Price == nil {
		return nil
	}
	a := &statement.Agreement
	e := &earning{currency: a.Price.Currency, since: a.HeldSince, until: a.EndedAt}
	if e.perHour, err = money.ParsePrice(a.Price.PerHour); err != nil {
		return nil
	}
	if a.Price.Once != "" {
		if e.once, err = money.ParsePrice(a.Price.Once); err != nil {
			return nil
		}
	}
	return e
}

// describePrice returns the price per hour with its currency.
func (e *earning) describePrice() string { return e.perHour.String() + " " + e.currency }

// soFar returns what the placement has earned until a time, at its present price.
func (e *earning) soFar(at time.Time) string {
	if e.until != nil && e.until.Before(at) {
		at = *e.until
	}
	hours := decimal.NewFromInt(max(0, at.Sub(e.since).Milliseconds())).Div(decimal.NewFromInt(time.Hour.Milliseconds()))
	return e.perHour.Decimal().Mul(hours).Add(e.once.Decimal()).StringFixed(2) + " " + e.currency
}

// SumEarnings returns for each currency what all placements that this member provides earn in an hour, for example
// "0.84 EUR per hour".
func SumEarnings(s *Snapshot) (texts []string) {
	sums := map[string]money.Price{}
	for _, p := range s.Member.ProviderInstructions {
		if e := earningOf(p); e != nil && e.until == nil {
			sums[e.currency] = sums[e.currency].Plus(e.perHour)
		}
	}
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		texts = append(texts, sums[currency].String()+" "+currency+" per hour")
	}
	return texts
}
