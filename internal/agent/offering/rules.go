// Package offering computes how much of a cluster's free capacity is lent, and how an
// advertisement expresses that.
//
// The broker computes available = allocatable × ratio − allocated − reserved. The advertisement
// therefore counts capacity that is not lent as allocated, so that available is exactly what can
// still be lent.
package offering

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Rules define how much of the free capacity is lent. The zero value lends all of it, without
// over-subscription.
//
// Free capacity is allocatable × ratio minus the requests of the cluster's own pods. It includes
// capacity that is lent already. The fields Withheld, HeadroomShare with Headroom, and Cap each
// limit the lent amount; the lowest limit applies.
type Rules struct {
	// Withheld is the percentage of free capacity that is not lent, from 0 to 100.
	Withheld Percentages
	// HeadroomShare is a percentage of allocatable, Headroom an amount. Their sum is left free for
	// future pods of this cluster.
	HeadroomShare Percentages
	Headroom      quantity.Amounts
	// Cap is the largest amount that is lent.
	Cap quantity.Amounts
	// Step is the unit in which a resource is lent: the lent amount is rounded down to a multiple of
	// it.
	Step quantity.Amounts
	// Minimum is the smallest amount worth lending: if less could still be lent, nothing more is
	// lent.
	Minimum quantity.Amounts
	// Ratios are the over-subscription ratios.
	Ratios quantity.Ratios
	// Groups are the groups of nodes that the cluster creates on demand; nil if it creates none.
	Groups []NodeGroup
}

// Percentages holds a percentage for each resource. All applies to resources that are not in Of.
type Percentages struct {
	All int64
	Of  map[corev1.ResourceName]int64
}

func (p Percentages) shareOf(name corev1.ResourceName, amount int64) int64 {
	percent := p.All
	if own, ok := p.Of[name]; ok {
		percent = own
	}
	return amount/100*percent + amount%100*percent/100
}

// Lendable returns how much of each resource is lent in total, including amounts that are reserved
// already. The result is between zero and the free amount. Fractions are rounded in favour of
// lending less, except that HeadroomShare is rounded down.
func (t *Rules) Lendable(allocatable, own quantity.Amounts) quantity.Amounts {
	out := make(quantity.Amounts, len(allocatable))
	stretched := allocatable.Stretched(t.Ratios)
	for name, amount := range allocatable {
		free := max(stretched[name]-own[name], 0)
		lent := Percentages{All: 100 - t.Withheld.shareOf(name, 100)}.shareOf(name, free)
		lent = min(lent, max(free-t.HeadroomShare.shareOf(name, amount)-t.Headroom[name], 0))
		if limit, capped := t.Cap[name]; capped {
			lent = min(lent, limit)
		}
		if step := t.Step[name]; step > 0 {
			lent -= lent % step
		}
		out[name] = lent
	}
	return out
}

// Advertised contains the values of an advertisement that express how much is lent.
type Advertised struct {
	// Allocated is the sum of the requests of the cluster's own pods, plus Withheld.
	Allocated quantity.Amounts
	// Withheld is the capacity that is not lent. It contains only positive amounts.
	Withheld quantity.Amounts
	// Ratios are the lowest ratios at which the whole lent amount is available. If the broker
	// limits the ratios, low ratios lose as little of that amount as possible.
	Ratios quantity.Ratios
}

// Advertise computes the values to advertise. reserved are the amounts that are lent already.
func (t *Rules) Advertise(allocatable, own, reserved quantity.Amounts) Advertised {
	out := Advertised{Allocated: own.Clone(), Withheld: quantity.Amounts{}, Ratios: t.Ratios}
	stretched := allocatable.Stretched(t.Ratios)
	for name, lent := range t.Lendable(allocatable, own) {
		if lent-reserved[name] < t.Minimum[name] {
			lent = min(lent, max(reserved[name], 0))
		}
		if lent == max(stretched[name]-own[name], 0) {
			continue // nothing is withheld
		}
		amount := stretched[name]
		if ratio, times := t.Ratios[name]; times {
			ratio = min(ratio, leastRatio(allocatable[name], own[name]+lent))
			out.Ratios = out.Ratios.With(name, ratio)
			amount = quantity.Amounts{name: allocatable[name]}.Stretched(out.Ratios)[name]
		}
		if kept := amount - lent - own[name]; kept > 0 {
			if out.Allocated == nil {
				out.Allocated = quantity.Amounts{}
			}
			out.Allocated[name] += kept
			out.Withheld[name] = kept
		}
	}
	return out
}

// leastRatio returns the lowest ratio, in hundredths, for which amount × ratio is at least wanted.
// The result is between 100 and 1000.
func leastRatio(amount, wanted int64) int64 {
	const once, most = 100, 1000
	if wanted <= amount {
		return once
	}
	high, low := bits.Mul64(uint64(wanted), once)
	if high >= uint64(amount) {
		return most
	}
	ratio, rest := bits.Div64(high, low, uint64(amount))
	if rest > 0 {
		ratio++
	}
	return int64(min(ratio, most))
}
