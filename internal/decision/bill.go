package decision

import (
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
	return Bill{
		PerHour: hourly.Add(once.DivRound(hours, 30)), Total: hourly.Mul(hours).Add(once),
		Currency: m.currencies[k].code,
	}
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

// priced is an amount of a resource at a price, exact: a part of 2^30 is one of 10^30
// times 5^30.
func priced(price float64, name corev1.ResourceName, amount int64) decimal.Decimal {
	if price == 0 || amount <= 0 {
		return decimal.Decimal{}
	}
	cost := Price(price).decimal().Mul(decimal.NewFromInt(amount))
	switch {
	case name == corev1.ResourceCPU:
		return cost.Shift(-3)
	case quantity.InBytes(name):
		return cost.Mul(fiveTo30).Shift(-30)
	}
	return cost
}

var fiveTo30 = decimal.NewFromInt(5).Pow(decimal.NewFromInt(30))

func (p Price) decimal() decimal.Decimal { return decimal.New(int64(p), -pricePlaces) }
