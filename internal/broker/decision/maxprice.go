package decision

import (
	"fmt"

	"github.com/shopspring/decimal"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// maxPrice is the highest accepted price per hour.
type maxPrice struct {
	set      bool
	currency string
	// billionths is the price in billionths of currency; amount is the same, exact.
	billionths float64
	amount     Price
}

func (c *contest) setMaxPrice(k *brokerv1alpha1.Constraints) {
	c.maxPrice = maxPrice{}
	if k == nil || k.MaxPrice == nil {
		return
	}
	amount, err := ParsePrice(string(k.MaxPrice.Amount))
	if err != nil {
		// The price was validated with the request. A price that cannot be parsed rejects every
		// candidate.
		amount = -1
	}
	c.maxPrice = maxPrice{true, k.MaxPrice.Currency, float64(amount), amount}
}

// near is the relative distance from the highest price within which rounding could decide. There the
// price is computed exactly.
const near = 1e-9

// checkPrice returns the reason if a row's price is not acceptable, else "".
func (c *contest) checkPrice(i int) Reason {
	if !c.maxPrice.set {
		return ""
	}
	m := c.market
	own := m.currencies[m.currency[i]].code
	factor := m.rates.factorBetween(own, c.maxPrice.currency)
	if m.currency[i] == noCurrency || factor == 0 {
		return NoPrice
	}
	switch cost := c.costOf(i) * factor; {
	case cost < c.maxPrice.billionths*(1-near):
		return ""
	case cost > c.maxPrice.billionths*(1+near):
		return TooExpensive
	}
	if m.rates.exceedsLimit(c.billOf(i).PerHour, own, c.maxPrice.amount.decimalOf(), c.maxPrice.currency) {
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
	case m.rates.factorBetween(own, c.maxPrice.currency) == 0:
		return fmt.Sprintf("is priced in %s, for which there is no rate to %s", own, c.maxPrice.currency)
	}
	bill := c.billOf(i).inCurrency(c.maxPrice.currency, m.rates)
	return fmt.Sprintf("costs %s %s an hour, at most %s is accepted", Money(bill.PerHour), bill.Currency, c.maxPrice.amount)
}

// Money formats an amount with nine decimal places, without trailing zeros.
func Money(amount decimal.Decimal) string { return amount.RoundBank(pricePlaces).String() }
