package offers

import (
	"maps"
	"reflect"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// materialShare limits how much may change in an offer that is not recorded at once: at most
// 1/materialShare of the allocatable amount of a resource.
const materialShare = 50

// DiffersMaterially reports whether an offer differs so much from the recorded one that decisions
// should use it at once.
func DiffersMaterially(old, new *ledger.Offer) bool {
	a, b := *old, *new
	a.Allocated, b.Allocated, a.Used, b.Used = nil, nil, nil, nil
	a.UsedApart, b.UsedApart = false, false
	// Shapes change with every pod. They are recorded when a decision depends on the offer.
	a.Shapes, b.Shapes = nil, nil
	if elasticDiffers(old.Elastic, new.Elastic, new.Allocatable) {
		return true
	}
	a.Elastic, b.Elastic = nil, nil
	if !reflect.DeepEqual(a, b) {
		return true
	}
	if differsFrom(old.Allocated, new.Allocated, new.Allocatable) {
		return true
	}
	if len(old.Used) != len(new.Used) {
		return true
	}
	for name := range maps.Keys(new.Used) {
		before, ok := old.Used[name]
		if !ok || differsFrom(before, new.Used[name], new.Allocatable) {
			return true
		}
	}
	return false
}

// ShareEqualParts returns a copy of a pending offer that shares equal parts with the recorded one,
// to save memory.
func ShareEqualParts(known, offer *ledger.Offer) *ledger.Offer {
	out := *known
	out.Allocated, out.Used, out.Shapes, out.Elastic = offer.Allocated, offer.Used, offer.Shapes, offer.Elastic
	if reflect.DeepEqual(known.Shapes, offer.Shapes) {
		out.Shapes = known.Shapes
	}
	return &out
}

// elasticDiffers reports whether other nodes can be created, or materially more or less of them is lent.
func elasticDiffers(old, new *ledger.Elastic, allocatable quantity.Amounts) bool {
	if old == nil || new == nil {
		return old != new
	}
	a, b := *old, *new
	a.Amounts, b.Amounts = nil, nil
	return !reflect.DeepEqual(a, b) || differsFrom(old.Amounts, new.Amounts, allocatable.Add(new.Amounts))
}

func differsFrom(a, b, whole quantity.Amounts) bool {
	for name, delta := range a.Sub(b) {
		if max(delta, -delta) > whole[name]/materialShare {
			return true
		}
	}
	return false
}
