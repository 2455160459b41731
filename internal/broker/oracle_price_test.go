package broker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// offered returns the price of a core at which a new placement is granted, 0 for none: that of the quote
// that it takes over, or the lender's.
func (o *oracle) offered(known *told, provider string) int64 {
	if known.pledge != nil && len(known.placements) == 0 {
		return known.pledge.price
	}
	return o.lenders[provider].price
}

// priceKept checks that a placement has the price of its grant. The price of a lease may be
// replaced by the lender's present price, at a renewal a day or more after the grant.
func (o *oracle) priceKept(known *told, was *promise, p *ledger.Placement, now time.Time) error {
	got := int64(0)
	if p.Price != nil {
		got = int64(p.Price.Rates[corev1.ResourceCPU] / 1_000_000_000)
		if p.Price.Currency != "EUR" || p.Price.Rates[corev1.ResourceMemory] != 0 {
			return fmt.Errorf("its price is %+v, nobody asks that", p.Price)
		}
	}
	if p.Price != nil && p.Price.Dearest != nil && !o.isDearer(p.Price) {
		return fmt.Errorf("its price %v is compared with one that nobody asks", p.Price)
	}
	lease := known.duration == 0 && known.asked.Equal(now) && now.Sub(p.AssignedAt.Time()) >= 24*time.Hour
	switch {
	case got == was.price:
		return nil
	case lease && got == o.lenders[p.Provider].price:
		was.price = got
		return nil
	}
	return fmt.Errorf("it costs %d for a core, %d was agreed", got, was.price)
}

// isDearer reports whether the price with which p is compared is higher than p, and may have been
// asked by some lender: a whole number for a core, and nothing for memory.
func (o *oracle) isDearer(p *ledger.Price) bool {
	d := p.Dearest
	return d.Currency == p.Currency && d.Rates[corev1.ResourceCPU] > p.Rates[corev1.ResourceCPU] && d.Rates[corev1.ResourceCPU]%1_000_000_000 == 0 && d.Rates[corev1.ResourceMemory] == 0
}
