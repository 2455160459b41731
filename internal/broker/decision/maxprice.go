package decision

import (
	"fmt"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// maxPrice is the highest price per hour that the request accepts.
type maxPrice struct {
	set      bool
	currency string
	// billionths is the price as a floating-point number of billionths of currency; amount is the
	// exact price.
	billionths float64
	amount     Price
}

func (c *contest) setMaxPrice(k *brokerv1alpha1.Constraints) {
	c.maxPrice = maxPrice{}
	if k == nil || k.MaxPrice == nil {
		return
	}
	amount, err := money.ParsePrice(string(k.MaxPrice.Amount))
	if err != nil {
		// The price was validated with the request, so this does not happen. The price -1 rejects
		// every candidate.
		amount = -1
	}
	c.maxPrice = maxPrice{true, k.MaxPrice.Currency, float64(amount), amount}
}

// near is a relative distance from the highest price. Within it, rounding could change the result
// of a floating-point comparison, so prices are compared exactly.
const near = 1e-9

func (c *contest) checkPrice(i int) Reason {
	if !c.maxPrice.set {
		return ""
	}
	m := c.market
	own := m.currencies[m.currency[i]].code
	factor := m.rates.factorBetween(own, c.maxPrice.currency)
	if m.currency[i] == noCurrency || factor == 0 || c.unpricedNeed(i) != "" {
		return NoPrice
	}
	switch cost := c.costOf(i) * factor; {
	case cost < c.maxPrice.billionths*(1-near):
		return ""
	case cost > c.maxPrice.billionths*(1+near):
		return TooExpensive
	}
	if m.rates.exceedsLimit(c.billOf(i).PerHour, own, c.maxPrice.amount.Decimal(), c.maxPrice.currency) {
		return TooExpensive
	}
	return ""
}

// unpricedNeed returns a requested resource for which the candidate in row i names no price, "" if
// it prices all of them. It ignores resources that the candidate does not offer.
func (c *contest) unpricedNeed(i int) corev1.ResourceName {
	for k := range c.needs {
		if n := &c.needs[k]; n.column != nowhere && c.market.columns[n.column].price[i] == 0 {
			return n.name
		}
	}
	return ""
}

// Accepts reports whether the candidate's price is at most the highest price of the request. It
// returns true if the request has no highest price, and false for a cluster that is not in the
// market.
func Accepts(m *Market, r *Request, id string) bool {
	c := m.beginContest(r, true)
	defer c.releaseRequest()
	i, ok := m.row[id]
	return ok && c.checkPrice(int(i)) == ""
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
	if name := c.unpricedNeed(i); name != "" {
		return fmt.Sprintf("names no price for %s, and a highest price is set", name)
	}
	bill := c.billOf(i).inCurrency(c.maxPrice.currency, m.rates)
	return fmt.Sprintf("costs %s %s an hour, at most %s is accepted", Money(bill.PerHour), bill.Currency, c.maxPrice.amount)
}

// Money formats an amount with nine decimal places, without trailing zeros.
func Money(amount decimal.Decimal) string { return amount.RoundBank(money.Places).String() }
