package decision

import (
	"math/bits"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Bill is the price of a request on one candidate.
type Bill struct {
	// PerHour and Total are in Currency, which is empty if the price is unknown. Total covers
	// the time for which the request is billed.
	PerHour, Total decimal.Decimal
	Currency       string
	// NotPriced are the requested resources for which a candidate with prices names none, sorted.
	NotPriced []string
}

// billOf returns the price of the request on the candidate in row i. It is exact, except that the
// hourly share of one-time costs is rounded to 30 decimal places.
func (c *contest) billOf(i int) Bill {
	m, hours := c.market, c.billedHours()
	k := m.currency[i]
	if k == noCurrency {
		return Bill{}
	}
	b := Bill{Currency: m.currencies[k].code}
	hourly, once := decimal.Decimal{}, decimal.Decimal{}
	for _, n := range c.needs {
		if n.column == nowhere {
			continue
		}
		price := m.columns[n.column].price[i]
		if hourly = hourly.Add(priceOf(price, n.name, n.amount)); price == 0 {
			b.NotPriced = append(b.NotPriced, string(n.name))
		}
	}
	if size := requirements.DataBytes(c.request.Data); size > 0 {
		hourly = hourly.Add(priceOf(m.storage[i], corev1.ResourceStorage, size))
		if c.movesData(i) {
			once = priceOf(m.egress[i], corev1.ResourceStorage, size)
		}
	}
	b.PerHour, b.Total = hourly, hourly.Mul(hours)
	if !once.IsZero() {
		b.PerHour, b.Total = hourly.Add(once.DivRound(hours, 30)), b.Total.Add(once)
	}
	return b
}

// inCurrency converts the bill to the currency with the given code. If there is no rate for the
// conversion, the bill stays in its own currency.
func (b Bill) inCurrency(code string, rates Rates) Bill {
	perHour, ok := rates.Convert(b.PerHour, b.Currency, code)
	if !ok || b.Currency == "" {
		return b
	}
	b.Total, _ = rates.Convert(b.Total, b.Currency, code)
	b.PerHour, b.Currency = perHour, code
	return b
}

// priceOf returns the exact price of an amount for one hour. Bytes are priced per GiB, so their
// number is divided by 2^30. To stay exact, priceOf uses 1/2^n = 5^n/10^n. Most amounts of bytes
// are multiples of a large power of two, so the numbers stay small.
func priceOf(price float64, name corev1.ResourceName, amount int64) decimal.Decimal {
	if price <= 0 || amount <= 0 {
		return decimal.Decimal{}
	}
	parts := 0
	if quantity.InBytes(name) {
		whole := min(bits.TrailingZeros64(uint64(amount)), gibibyteBits)
		amount, parts = amount>>whole, gibibyteBits-whole
	}
	cost := Price(price).Decimal().Mul(decimal.NewFromInt(amount))
	switch {
	case name == corev1.ResourceCPU:
		return cost.Shift(-3)
	case parts > 0:
		return cost.Mul(powersOf5[parts]).Shift(int32(-parts))
	}
	return cost
}

// gibibyteBits is the binary logarithm of the number of bytes in a GiB.
const gibibyteBits = 30

var powersOf5 = func() (powers [gibibyteBits + 1]decimal.Decimal) {
	powers[0] = decimal.NewFromInt(1)
	for n := range gibibyteBits {
		powers[n+1] = powers[n].Mul(decimal.NewFromInt(5))
	}
	return powers
}()
