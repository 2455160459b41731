// Package quantity holds amounts of cluster resources as whole numbers, so that
// the broker can add, subtract and compare them exactly and without allocating.
package quantity

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Limit is the largest amount of one resource that is accepted from outside.
// Two of them still differ by an int64, and it lies far above what exists:
// 4 exbibytes, or 4.6 quadrillion cores.
const Limit int64 = 1 << 62

// Amounts maps a resource to how much of it there is, in base units: cpu in
// millicores, memory and other storage in bytes, anything else counted in units.
// A resource that is not named counts as zero. The nil map is usable.
//
// Arithmetic never wraps. It saturates at the bounds of int64, so a sum of holds
// that is too large to count stays larger than any offer and is refused; it can
// never come round as a small number. Amounts that pass FromResourceList are at
// most Limit, and saturate only in sums no real fleet reaches.
//
// Sub may go below zero: a shortfall is a fact its caller has to see.
type Amounts map[corev1.ResourceName]int64

// Clone returns a copy that shares nothing with a; nil stays nil.
func (a Amounts) Clone() Amounts { return maps.Clone(a) }

// IsZero reports whether no resource has an amount other than zero.
func (a Amounts) IsZero() bool {
	for _, v := range a {
		if v != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether a and b hold the same amounts; a resource at zero equals
// one that is not named.
func (a Amounts) Equal(b Amounts) bool {
	for name, v := range a {
		if b[name] != v {
			return false
		}
	}
	for name, v := range b {
		if a[name] != v {
			return false
		}
	}
	return true
}

// Add returns a + b, saturating.
func (a Amounts) Add(b Amounts) Amounts { return combine(a, b, addSaturating) }

// Sub returns a − b, saturating. A resource named by either is named by the result.
func (a Amounts) Sub(b Amounts) Amounts { return combine(a, b, subSaturating) }

// Max returns the larger of both amounts for every resource that either names.
// The nil map as b lifts negative amounts to zero.
func (a Amounts) Max(b Amounts) Amounts {
	return combine(a, b, func(x, y int64) int64 { return max(x, y) })
}

// AtMost returns a, cut to ceiling where ceiling names the resource. What ceiling
// does not name is not limited.
func (a Amounts) AtMost(ceiling Amounts) Amounts {
	out := a.Clone()
	for name, v := range out {
		if limit, ok := ceiling[name]; ok && limit < v {
			out[name] = limit
		}
	}
	return out
}

// Times returns every amount multiplied by n, saturating. n must not be negative.
func (a Amounts) Times(n int64) Amounts {
	out := make(Amounts, len(a))
	for name, v := range a {
		out[name] = mulSaturating(v, n)
	}
	return out
}

// Names returns the resources that are named, sorted.
func (a Amounts) Names() []corev1.ResourceName {
	return slices.Sorted(maps.Keys(a))
}

// Shortage is one resource that is asked for in a larger amount than is free.
type Shortage struct {
	Resource corev1.ResourceName
	Need     int64
	Have     int64
}

// Fits reports whether request fits into free. Where it does not, the shortage
// is that of the first such resource by name, so that the answer is stable.
// A request for zero or less of a resource always fits.
func Fits(request, free Amounts) (Shortage, bool) {
	var first Shortage
	for name, need := range request {
		have := free[name]
		if need <= 0 || need <= have {
			continue
		}
		if first.Need == 0 || name < first.Resource {
			first = Shortage{Resource: name, Need: need, Have: have}
		}
	}
	return first, first.Need == 0
}

func combine(a, b Amounts, op func(x, y int64) int64) Amounts {
	out := make(Amounts, max(len(a), len(b)))
	for name, v := range a {
		out[name] = op(v, b[name])
	}
	for name, v := range b {
		if _, both := a[name]; !both {
			out[name] = op(0, v)
		}
	}
	return out
}

func addSaturating(x, y int64) int64 {
	switch {
	case y > 0 && x > math.MaxInt64-y:
		return math.MaxInt64
	case y < 0 && x < math.MinInt64-y:
		return math.MinInt64
	}
	return x + y
}

func subSaturating(x, y int64) int64 {
	switch {
	case y < 0 && x > math.MaxInt64+y:
		return math.MaxInt64
	case y > 0 && x < math.MinInt64+y:
		return math.MinInt64
	}
	return x - y
}

func mulSaturating(x, n int64) int64 {
	if x == 0 || n == 0 {
		return 0
	}
	if x == math.MinInt64 || x > math.MaxInt64/n || x < -(math.MaxInt64/n) {
		if x < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return x * n
}
