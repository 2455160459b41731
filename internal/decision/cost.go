package decision

import "math"

// cost gives 100 points to the cheapest candidate for this very request, and to a
// dearer one the share that the cheapest price is of its own; prices closer than a
// part in 10^15 count as equal. Only one currency is compared: the request's, or
// else the one most candidates use. A candidate without a price, or with one in
// another currency, gets nothing.
type cost struct{}

func (cost) name() string { return Cost }

func (cost) prepare(c *contest) bool {
	m := c.market
	c.currency = m.comparedCurrency(c.request.Currency)
	c.cheapest = math.Inf(1)
	if c.currency == noCurrency {
		return false
	}
	// A price of the first resource alone that reaches the cheapest total rules a
	// candidate out, so most rows cost one comparison.
	limit := math.Inf(1)
	first, units := m.columns[cpuColumn].price, 0.0
	if len(c.priced) > 0 {
		first, units = c.priced[0].price, c.priced[0].units
	}
	for i, p := range first {
		if p > limit || m.currency[i] != c.currency || c.tooSmall(i) {
			continue
		}
		sum := c.costOf(i)
		if sum >= c.cheapest {
			continue
		}
		if reason, _ := c.check(i); reason != "" {
			continue
		}
		c.cheapest = sum
		if units > 0 {
			limit = sum / units * (1 + limitSlack)
		}
	}
	return !math.IsInf(c.cheapest, 1)
}

// limitSlack keeps the rounding of one division from ruling out a cheaper candidate.
const limitSlack = 1e-9

func (cost) score(c *contest, i int) int64 {
	if c.market.currency[i] != c.currency {
		return 0
	}
	sum := c.costOf(i)
	if sum <= c.cheapest {
		return fullScore
	}
	return int64(c.cheapest / sum * float64(fullScore))
}

func (cost) note(c *contest, i int) string {
	m := c.market
	switch m.currency[i] {
	case c.currency:
		return ""
	case noCurrency:
		return "names no price"
	}
	return "priced in " + m.currencies[m.currency[i]].code + ", compared in " + m.currencies[c.currency].code
}
