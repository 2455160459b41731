package decision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"
)

// Rates convert currencies. The zero Rates convert no currency.
type Rates struct {
	// Date is the date of the rates, for display.
	Date string
	// Base is an ISO 4217 code.
	Base string
	// Per is the amount of each other currency that one unit of Base is worth.
	Per map[string]Price
}

// Validate refuses invalid currencies, and rates of zero.
func (r Rates) Validate() error {
	if len(r.Per) == 0 && r.Base == "" {
		return nil
	}
	if !IsCurrency(r.Base) {
		return fmt.Errorf("base %q is not an ISO 4217 code such as EUR", r.Base)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Per)) {
		switch {
		case !IsCurrency(code):
			return fmt.Errorf("%q is not an ISO 4217 code such as USD", code)
		case code == r.Base:
			return fmt.Errorf("%q is the base: its rate is 1, leave it out", code)
		case r.Per[code] <= 0:
			return fmt.Errorf("the rate of %q must be above zero", code)
		}
	}
	return nil
}

// rateOf returns the value of one unit of Base in a currency, 0 if unknown.
func (r Rates) rateOf(code string) Price {
	if code == r.Base && code != "" {
		return priceUnit
	}
	return r.Per[code]
}

// Convert converts an amount to another currency, to 30 decimal places; false without a rate.
func (r Rates) Convert(amount decimal.Decimal, from, to string) (decimal.Decimal, bool) {
	if from == to {
		return amount, true
	}
	a, b := r.rateOf(from), r.rateOf(to)
	if a == 0 || b == 0 {
		return decimal.Decimal{}, false
	}
	return amount.Mul(b.decimalOf()).DivRound(a.decimalOf(), 30), true
}

// exceedsLimit reports whether an amount is more than another. It does not round: it brings both
// to the base by multiplication alone.
func (r Rates) exceedsLimit(amount decimal.Decimal, currency string, most decimal.Decimal, of string) bool {
	if currency == of {
		return amount.GreaterThan(most)
	}
	return amount.Mul(r.rateOf(of).decimalOf()).GreaterThan(most.Mul(r.rateOf(currency).decimalOf()))
}

// factorBetween returns the factor from prices of one currency to those of another; 0 without a
// rate.
func (r Rates) factorBetween(from, to string) float64 {
	if from == to {
		return 1
	}
	a, b := r.rateOf(from), r.rateOf(to)
	if a == 0 || b == 0 {
		return 0
	}
	return float64(b) / float64(a)
}

// SetRates replaces the rates for comparing prices in several currencies. They must be valid.
func (m *Market) SetRates(r Rates) { m.rates = Rates{r.Date, r.Base, maps.Clone(r.Per)} }
