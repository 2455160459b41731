package decision

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// Rates are exchange rates. The zero Rates convert no currency.
type Rates struct {
	// Date is the day of the rates, for display.
	Date string
	// Base is the currency to which all rates refer, an ISO 4217 code.
	Base string
	// Per maps every other currency to how much of it one unit of Base buys.
	Per map[string]Price
}

// Validate returns an error for invalid currency codes, for a rate of Base itself, and for rates
// that are not above zero.
func (r Rates) Validate() error {
	if len(r.Per) == 0 && r.Base == "" {
		return nil
	}
	if !money.IsCurrency(r.Base) {
		return fmt.Errorf("base %q is not an ISO 4217 code such as EUR", r.Base)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Per)) {
		switch {
		case !money.IsCurrency(code):
			return fmt.Errorf("%q is not an ISO 4217 code such as USD", code)
		case code == r.Base:
			return fmt.Errorf("%q is the base: its rate is 1, leave it out", code)
		case r.Per[code] <= 0:
			return fmt.Errorf("the rate of %q must be above zero", code)
		}
	}
	return nil
}

// rateOf returns how much of a currency one unit of Base is worth, 0 if there is no rate.
func (r Rates) rateOf(code string) Price {
	if code == r.Base && code != "" {
		return money.Unit
	}
	return r.Per[code]
}

// Convert converts an amount to another currency, rounded to 30 decimal places. It returns false if
// a rate is missing.
func (r Rates) Convert(amount decimal.Decimal, from, to string) (decimal.Decimal, bool) {
	if from == to {
		return amount, true
	}
	a, b := r.rateOf(from), r.rateOf(to)
	if a == 0 || b == 0 {
		return decimal.Decimal{}, false
	}
	return amount.Mul(b.Decimal()).DivRound(a.Decimal(), 30), true
}

// exceedsLimit reports whether an amount exceeds a limit, the parameter most. currency is the code
// of the amount's currency, and the parameter of is the code of the limit's currency. Both rates
// must be known. To avoid rounding, exceedsLimit multiplies each side by the other currency's rate
// instead of dividing.
func (r Rates) exceedsLimit(amount decimal.Decimal, currency string, most decimal.Decimal, of string) bool {
	if currency == of {
		return amount.GreaterThan(most)
	}
	return amount.Mul(r.rateOf(of).Decimal()).GreaterThan(most.Mul(r.rateOf(currency).Decimal()))
}

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

// SetRates replaces the exchange rates with which the market compares prices. They must be valid.
func (m *Market) SetRates(r Rates) { m.rates = Rates{r.Date, r.Base, maps.Clone(r.Per)} }

// Price is what a candidate charges for one hour of one core, one GiB or one piece of another
// resource, in billionths of its currency's unit.
type Price = money.Price
