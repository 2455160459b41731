// Package offering works out how much of what is free in a cluster is lent, and how an
// advertisement says it.
//
// A broker reckons available = allocatable × ratio − allocated − what is reserved. What a
// cluster keeps back is therefore advertised as allocated: a reservation then moves
// available by its own amount and nothing else, however little is lent.
package offering

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Terms say how much of what is free is lent. The zero value lends all of it, once.
//
// Free is allocatable × ratio, less what the cluster's own pods request; what is lent
// already is part of it. Each of the terms is a bound of its own, and the least holds.
type Terms struct {
	// Withheld is the percentage of what is free that is not lent, from 0 to 100.
	Withheld Percentages
	// HeadroomShare is the percentage of allocatable that is left free, and Headroom the
	// amount, for pods of the cluster's own that are still to come.
	HeadroomShare Percentages
	Headroom      quantity.Amounts
	// Cap is the most that is lent.
	Cap quantity.Amounts
	// Step is what the amount that is lent is a multiple of.
	Step quantity.Amounts
	// Minimum is the least that is left to lend: where less is left, no more is lent.
	Minimum quantity.Amounts
	// Ratios are how many times what is allocatable is promised.
	Ratios quantity.Ratios
}

// Percentages of every resource: All, but for those that have one of their own.
type Percentages struct {
	All int64
	Of  map[corev1.ResourceName]int64
}

func (p Percentages) of(name corev1.ResourceName, amount int64) int64 {
	percent := p.All
	if own, ok := p.Of[name]; ok {
		percent = own
	}
	return amount/100*percent + amount%100*percent/100
}

// Lendable is what is lent in all of every resource that is allocatable, whoever has it
// already. It is from zero up to what is free. Parts of a unit are rounded so that less
// is lent, but for those of a percentage of headroom.
func (t *Terms) Lendable(allocatable, own quantity.Amounts) quantity.Amounts {
	out := make(quantity.Amounts, len(allocatable))
	stretched := allocatable.Stretched(t.Ratios)
	for name, amount := range allocatable {
		free := max(stretched[name]-own[name], 0)
		lent := Percentages{All: 100 - t.Withheld.of(name, 100)}.of(name, free)
		lent = min(lent, max(free-t.HeadroomShare.of(name, amount)-t.Headroom[name], 0))
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

// Advertised is how an advertisement says what is lent.
type Advertised struct {
	// Allocated is what own pods request and what is kept back beside it.
	Allocated quantity.Amounts
	// Withheld is the part of it that is kept back; only what is above zero is named.
	Withheld quantity.Amounts
	// Ratios are the least with which all that is lent can be promised, so that a broker
	// that allows less of them withholds no more than it has to.
	Ratios quantity.Ratios
}

// Advertise what is lent where reserved has been lent already.
func (t *Terms) Advertise(allocatable, own, reserved quantity.Amounts) Advertised {
	out := Advertised{Allocated: own.Clone(), Withheld: quantity.Amounts{}, Ratios: t.Ratios}
	stretched := allocatable.Stretched(t.Ratios)
	for name, lent := range t.Lendable(allocatable, own) {
		if lent-reserved[name] < t.Minimum[name] {
			lent = min(lent, max(reserved[name], 0))
		}
		if lent == max(stretched[name]-own[name], 0) {
			continue // nothing is kept back
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

// leastRatio is the least number of hundredths of an amount that hold what is wanted.
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
