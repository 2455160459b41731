// Package offering computes how much of a cluster's free capacity is lent, and how an
// advertisement expresses that.
//
// A broker computes available = allocatable × ratio − allocated − reserved. Withheld capacity
// is therefore advertised as allocated. A reservation then reduces available by exactly its own
// amount, even if little is lent.
package offering

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Rules define how much of the free capacity is lent. The zero value lends all of it, without
// over-subscription.
//
// Free capacity is allocatable × ratio minus the requests of the cluster's own pods. It
// includes capacity that is already lent. Each term is a separate bound, and the lowest one
// applies.
type Rules struct {
	// Withheld is the percentage of free capacity that is not lent, from 0 to 100.
	Withheld Percentages
	// HeadroomShare, a percentage of allocatable, and Headroom, an amount, are left free for
	// future pods of the cluster's own.
	HeadroomShare Percentages
	Headroom      quantity.Amounts
	// Cap is the maximum that is lent.
	Cap quantity.Amounts
	// Step rounds the lent amount down to a multiple.
	Step quantity.Amounts
	// Minimum is the smallest remainder that is still lent: below it, no more is lent.
	Minimum quantity.Amounts
	// Ratios are the over-subscription ratios of allocatable.
	Ratios quantity.Ratios
}

// Percentages holds one percentage for each resource: All, unless Of has one for the resource.
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

// Lendable returns the total lent amount of every allocatable resource, including amounts that
// are already reserved. It lies between zero and the free amount. Fractions of a unit are
// rounded so that less is lent, except in a percentage of headroom.
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

// Advertised is how an advertisement expresses what is lent.
type Advertised struct {
	// Allocated is the requests of own pods plus the withheld amounts.
	Allocated quantity.Amounts
	// Withheld is the withheld part of Allocated. It holds only positive amounts.
	Withheld quantity.Amounts
	// Ratios are the lowest ratios that suffice for everything that is lent. A broker that caps
	// ratios then withholds no more than necessary.
	Ratios quantity.Ratios
}

// Advertise computes what to advertise if reserved has been lent already.
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

// leastRatio returns the lowest ratio, in hundredths, at which amount covers wanted.
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
