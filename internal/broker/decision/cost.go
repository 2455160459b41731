package decision

import "math"

// cost gives 100 points to the cheapest candidate for this request. A more expensive candidate
// gets the cheapest price as a share of its own. Prices that differ by less than a part in
// 10^15 count as equal.
//
// Prices are compared in the request's currency, or else in the one that most candidates use;
// other prices are converted. A candidate whose price is missing or cannot be converted gets no
// points.
type cost struct{}

func (cost) name() string { return Cost }

func (cost) prepareScores(c *contest) bool {
	m := c.market
	c.cheapest = math.Inf(1)
	if !c.convertPrices() {
		return false
	}
	// If the price of the first resource alone reaches the cheapest total in every currency,
	// the candidate cannot win. So most rows cost one comparison.
	limit, least := math.Inf(1), c.leastFactor()
	first, units := m.columns[cpuColumn].price, 0.0
	if len(c.priced) > 0 {
		first, units = c.priced[0].price, c.priced[0].units
	}
	for i, p := range first {
		if p > limit {
			continue
		}
		factor := c.factor[m.currency[i]]
		if factor == 0 || c.tooSmall(i) {
			continue
		}
		sum := c.costOf(i) * factor
		if sum >= c.cheapest {
			continue
		}
		if reason, _ := c.checkCandidate(i); reason != "" {
			continue
		}
		c.cheapest = sum
		if units > 0 {
			limit = sum / (units * least) * (1 + limitSlack)
		}
	}
	return !math.IsInf(c.cheapest, 1)
}

// leastFactor returns the factor of the currency whose unit is worth least.
func (c *contest) leastFactor() float64 {
	least := math.Inf(1)
	for _, f := range c.factor {
		if f > 0 {
			least = min(least, f)
		}
	}
	return least
}

// limitSlack keeps the rounding of one division from ruling out a cheaper candidate.
const limitSlack = 1e-9

func (cost) score(c *contest, i int) int64 {
	factor := c.factor[c.market.currency[i]]
	if factor == 0 {
		return 0
	}
	sum := c.costOf(i) * factor
	if sum <= c.cheapest {
		return fullScore
	}
	return int64(c.cheapest / sum * float64(fullScore))
}

func (cost) explainScore(c *contest, i int) string {
	m := c.market
	k := m.currency[i]
	own := m.currencies[k].code
	switch {
	case k == noCurrency:
		return "names no price"
	case c.factor[k] == 0:
		return "is priced in " + own + ", for which there is no rate to " + c.currency
	case own == c.currency:
		return ""
	case m.rates.Date == "":
		return "converted from " + own
	}
	return "converted from " + own + " at the rates of " + m.rates.Date
}

// convertPrices chooses the currency for comparisons and the factors to it, and reports
// whether the prices of any candidate can be compared.
func (c *contest) convertPrices() bool {
	m := c.market
	c.currency, c.factor = c.commonCurrency(), c.factor[:0]
	comparable := false
	for k := range m.currencies {
		factor := 0.0
		if own := &m.currencies[k]; own.count > 0 && c.currency != "" {
			factor = m.rates.factorBetween(own.code, c.currency)
		}
		c.factor = append(c.factor, factor)
		comparable = comparable || factor != 0
	}
	return comparable
}

// commonCurrency returns the currency of the request, or else the one most candidates use.
func (c *contest) commonCurrency() string {
	switch {
	case c.request.Currency != "":
		return c.request.Currency
	case c.maxPrice.set:
		return c.maxPrice.currency
	}
	return c.market.commonCurrency()
}
