package ledger

import (
	"math/big"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// stretchAmount returns how much of an amount may be promised.
func (n *naive) stretchAmount(amount int64, resource corev1.ResourceName, o *Offer) int64 {
	offered, ceiling := o.OverSubscription[resource], n.ceilings[resource]
	if offered == 0 || ceiling == 0 {
		return amount
	}
	product := new(big.Int).Mul(big.NewInt(amount), big.NewInt(min(offered, ceiling)))
	return product.Div(product, big.NewInt(100)).Int64()
}

// anyCeilings sets and removes ceilings; promises under higher ones stand.
func (m *machine) anyCeilings(c choose) Event {
	e := Event{Change: &Ceilings{}}
	if c(3) > 0 {
		e.Change.(*Ceilings).OverSubscription = quantity.Ratios{corev1.ResourceCPU: int64(101 + c(150))}
	}
	return e
}
