package decision

import (
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// ceiling is the highest price for an hour that is accepted.
type ceiling struct {
	set      bool
	currency string
	// billionths of currency; amount is the same, exact.
	billionths float64
	amount     Price
}

func (c *contest) setCeiling(k *terms.Constraints) {
	c.ceiling = ceiling{}
	if k == nil || k.MaxPrice == nil {
		return
	}
	amount, err := ParsePrice(k.MaxPrice.Amount)
	if err != nil {
		// It was checked when it was asked for; nothing is cheap enough for what it means.
		amount = -1
	}
	c.ceiling = ceiling{true, k.MaxPrice.Currency, float64(amount), amount}
}

// near is how far from the ceiling rounding could decide; there it is computed exactly.
const near = 1e-9

// checkPrice returns why a row's price is not acceptable.
func (c *contest) checkPrice(i int) Reason {
	if !c.ceiling.set {
		return ""
	}
	m := c.market
	own := m.currencies[m.currency[i]].code
	factor := m.rates.factorBetween(own, c.ceiling.currency)
	if m.currency[i] == noCurrency || factor == 0 {
		return NoPrice
	}
	switch cost := c.costOf(i) * factor; {
	case cost < c.ceiling.billionths*(1-near):
		return ""
	case cost > c.ceiling.billionths*(1+near):
		return TooExpensive
	}
	if m.rates.exceeds(c.billOf(i).PerHour, own, c.ceiling.amount.decimalOf(), c.ceiling.currency) {
		return TooExpensive
	}
	return ""
}

func (c *contest) tellPrice(i int) string {
	m := c.market
	own := m.currencies[m.currency[i]].code
	switch {
	case own == "":
		return "names no price, and a highest price is set"
	case m.rates.factorBetween(own, c.ceiling.currency) == 0:
		return fmt.Sprintf("is priced in %s, for which there is no rate to %s", own, c.ceiling.currency)
	}
	bill := c.billOf(i).inCurrency(c.ceiling.currency, m.rates)
	return fmt.Sprintf("costs %s %s an hour, at most %s is accepted", Money(bill.PerHour), bill.Currency, c.ceiling.amount)
}

// Money writes an amount to nine decimal places, without trailing zeros.
func Money(amount decimal.Decimal) string { return amount.RoundBank(pricePlaces).String() }
