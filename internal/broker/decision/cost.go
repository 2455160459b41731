package decision

import (
	"math"
	"strings"
)

// cost gives every candidate 100 points × the lowest price ÷ its own price, where a price is what
// this request costs there. So the cheapest candidate gets 100. Prices that differ by less than
// a part in 10^15 may get the same points.
//
// Prices are compared in the request's currency, or else in the one that most candidates use;
// other prices are converted. A candidate whose price is missing or cannot be converted gets no
// points.
//
// A resource that a candidate does not price is compared at the highest price among those that
// could serve the request, so omitting a price gains nothing. A candidate that raises its price to
// the highest one gains nothing over candidates that omit theirs, because all of them are then
// compared at this price.
type cost struct{}

func (cost) name() string { return Cost }

func (cost) prepareScores(c *contest) bool {
	m := c.market
	c.cheapest = math.Inf(1)
	if !c.convertPrices() {
		return false
	}
	c.findHighestPrices()
	// A candidate whose price of the first resource is above limit cannot be the cheapest: this
	// resource alone would cost more there than the whole request on the cheapest candidate so far,
	// whatever the currency. So most rows take only one comparison.
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
		sum := c.comparedCost(i, factor)
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

// comparedCost returns the hourly cost of the request on row i in the currency of the comparison.
// For a resource that the candidate does not price, it uses the highest price, see findHighestPrices.
func (c *contest) comparedCost(i int, factor float64) float64 {
	sum := c.costOf(i) * factor
	for k := range c.priced {
		if p := &c.priced[k]; p.omitted && p.price[i] == 0 {
			sum += p.highest * p.units
		}
	}
	return sum
}

// findHighestPrices finds, for every resource that some candidate does not price, the highest price
// among the candidates that could serve the request.
func (c *contest) findHighestPrices() {
	for k := range c.priced {
		p := &c.priced[k]
		if !p.omitted {
			continue
		}
		p.highest = 0
		for i, own := range p.price {
			if own <= 0 {
				continue
			}
			converted := own * c.factor[c.market.currency[i]]
			if converted <= p.highest || c.tooSmall(i) {
				continue
			}
			if reason, _ := c.checkCandidate(i); reason == "" {
				p.highest = converted
			}
		}
	}
}

// omittedPrices returns the names of the resources that the candidate in row i does not price while
// others charge for them, joined by "and"; "" if there are none.
func (c *contest) omittedPrices(i int) string {
	var names []string
	for k := range c.priced {
		if p := &c.priced[k]; p.omitted && p.price[i] == 0 && p.highest > 0 {
			names = append(names, string(p.name))
		}
	}
	return strings.Join(names, " and ")
}

// leastFactor returns the conversion factor of the currency whose unit is worth least, among all
// currencies in use.
func (c *contest) leastFactor() float64 {
	least := math.Inf(1)
	for _, f := range c.factor {
		if f > 0 {
			least = min(least, f)
		}
	}
	return least
}

// limitSlack raises the limit by a relative 1e-9, so that rounding in its computation cannot
// exclude a cheaper candidate.
const limitSlack = 1e-9

func (cost) score(c *contest, i int) int64 {
	factor := c.factor[c.market.currency[i]]
	if factor == 0 {
		return 0
	}
	sum := c.comparedCost(i, factor)
	if sum <= c.cheapest {
		return fullScore
	}
	return int64(c.cheapest / sum * float64(fullScore))
}

func (cost) explainScore(c *contest, i int) string {
	m := c.market
	k := m.currency[i]
	own := m.currencies[k].code
	var notes []string
	switch {
	case k == noCurrency:
		return "names no price"
	case c.factor[k] == 0:
		return "is priced in " + own + ", for which there is no rate to " + c.currency
	case own == c.currency:
	case m.rates.Date == "":
		notes = append(notes, "converted from "+own)
	default:
		notes = append(notes, "converted from "+own+" at the rates of "+m.rates.Date)
	}
	if names := c.omittedPrices(i); names != "" {
		notes = append(notes, "names no price for "+names+", compared at the highest")
	}
	return strings.Join(notes, "; ")
}

// convertPrices chooses the currency of the comparison and computes the conversion factor of each
// currency in the market. It reports whether the prices of any candidate can be compared.
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

// commonCurrency returns the currency in which costs are compared: the request's own currency, else
// the currency of its highest accepted price, else the one that most candidates use.
func (c *contest) commonCurrency() string {
	switch {
	case c.request.Currency != "":
		return c.request.Currency
	case c.maxPrice.set:
		return c.maxPrice.currency
	}
	return c.market.commonCurrency()
}
