package decision

import (
	"math/bits"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Bill is what a request costs on one candidate.
type Bill struct {
	// PerHour and Total are in Currency, which is empty when nothing is known of the
	// price. Total is for as long as the request lasts.
	PerHour, Total decimal.Decimal
	Currency       string
}

// bill is exact but for what is paid once, whose part of an hour has 30 decimal
// places.
func (c *contest) bill(i int) Bill {
	m, hours := c.market, c.hours()
	k := m.currency[i]
	if k == noCurrency {
		return Bill{}
	}
	hourly, once := decimal.Decimal{}, decimal.Decimal{}
	for _, n := range c.needs {
		if n.column != nowhere {
			hourly = hourly.Add(priced(m.columns[n.column].price[i], n.name, n.amount))
		}
	}
	if d := c.request.Data; d != nil {
		hourly = hourly.Add(priced(m.storage[i], corev1.ResourceStorage, d.Bytes))
		if c.movesData(i) {
			once = priced(m.egress[i], corev1.ResourceStorage, d.Bytes)
		}
	}
	b := Bill{PerHour: hourly, Total: hourly.Mul(hours), Currency: m.currencies[k].code}
	if !once.IsZero() {
		b.PerHour, b.Total = hourly.Add(once.DivRound(hours, 30)), b.Total.Add(once)
	}
	return b
}

// in converts the bill where a rate is known.
func (b Bill) in(code string, rates Rates) Bill {
	perHour, ok := rates.Convert(b.PerHour, b.Currency, code)
	if !ok || b.Currency == "" {
		return b
	}
	b.Total, _ = rates.Convert(b.Total, b.Currency, code)
	b.PerHour, b.Currency = perHour, code
	return b
}

// priced is an amount of a resource at a price, exact: a part of 2^n is one of 10^n times
// 5^n. Most amounts in bytes are multiples of a large power of two, and the numbers are
// small.
func priced(price float64, name corev1.ResourceName, amount int64) decimal.Decimal {
	if price == 0 || amount <= 0 {
		return decimal.Decimal{}
	}
	parts := 0
	if quantity.InBytes(name) {
		whole := min(bits.TrailingZeros64(uint64(amount)), gibibyteBits)
		amount, parts = amount>>whole, gibibyteBits-whole
	}
	cost := Price(price).decimal().Mul(decimal.NewFromInt(amount))
	switch {
	case name == corev1.ResourceCPU:
		return cost.Shift(-3)
	case parts > 0:
		return cost.Mul(powersOf5[parts]).Shift(int32(-parts))
	}
	return cost
}

// gibibyteBits is the power of two for which bytes are priced.
const gibibyteBits = 30

var powersOf5 = func() (powers [gibibyteBits + 1]decimal.Decimal) {
	powers[0] = decimal.NewFromInt(1)
	for n := range gibibyteBits {
		powers[n+1] = powers[n].Mul(decimal.NewFromInt(5))
	}
	return powers
}()

func (p Price) decimal() decimal.Decimal { return decimal.New(int64(p), -pricePlaces) }
