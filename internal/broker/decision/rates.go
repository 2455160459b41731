package decision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"
)

// Rates convert currencies. The zero Rates convert none.
type Rates struct {
	// Date they are of, for people.
	Date string
	// Base is an ISO 4217 code.
	Base string
	// Per is how much of each other currency one unit of Base is.
	Per map[string]Price
}

// Validate refuses what is no currency, and rates of zero.
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

// rateOf is how much one unit of Base is in a currency, 0 if that is not known.
func (r Rates) rateOf(code string) Price {
	if code == r.Base && code != "" {
		return priceUnit
	}
	return r.Per[code]
}

// Convert turns an amount into another currency, to 30 decimal places; false where no
// rate is known.
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

// exceeds reports whether an amount is more than another, without rounding: both are
// brought to the base by multiplication alone.
func (r Rates) exceeds(amount decimal.Decimal, currency string, most decimal.Decimal, of string) bool {
	if currency == of {
		return amount.GreaterThan(most)
	}
	return amount.Mul(r.rateOf(of).decimalOf()).GreaterThan(most.Mul(r.rateOf(currency).decimalOf()))
}

// factorBetween turns prices of one currency into those of another; 0 where no rate is known.
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

// SetRates replaces the rates by which prices in several currencies are compared.
// They must be valid.
func (m *Market) SetRates(r Rates) { m.rates = Rates{r.Date, r.Base, maps.Clone(r.Per)} }
