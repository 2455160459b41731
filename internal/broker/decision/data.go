package decision

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// priceData adds the cost of the request's data: its storage for the duration of the reservation,
// and one transfer if the data is in another region than the candidate.
//
// It represents both as priced needs, so that requests without data take no extra time.
func (c *contest) priceData() {
	d := c.request.Data
	size := requirements.DataBytes(d)
	if size <= 0 {
		return
	}
	gib := float64(size) / (1 << 30)
	c.priced = append(c.priced, pricedNeed{price: c.market.storage, units: gib})
	if d.Region == "" {
		return
	}
	c.moving = c.moving[:0]
	for i, price := range c.market.egress {
		if !c.movesData(i) {
			price = 0
		}
		c.moving = append(c.moving, price)
	}
	c.priced = append(c.priced, pricedNeed{price: c.moving, units: gib / Lasts(c.request.Duration).Hours()})
}

func (c *contest) movesData(i int) bool {
	d := c.request.Data
	return d.Region != "" && d.Region != c.market.facts[i].region
}

// Lasts returns the time for which a request with the given duration is billed: the duration, or
// requirements.UnboundedFor if it is zero.
func Lasts(duration time.Duration) time.Duration {
	if duration > 0 {
		return duration
	}
	return requirements.UnboundedFor
}

func (c *contest) billedHours() decimal.Decimal {
	d := Lasts(c.request.Duration)
	if d%time.Hour == 0 {
		return decimal.NewFromInt(int64(d / time.Hour))
	}
	return decimal.NewFromInt(int64(d)).DivRound(decimal.NewFromInt(int64(time.Hour)), 30)
}
