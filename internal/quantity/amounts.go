// Package quantity holds amounts of cluster resources as whole numbers, so that the broker
// adds, subtracts and compares them exactly and without allocating.
package quantity

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Limit is the largest accepted amount of one resource. The difference of two such amounts fits
// into an int64, and the limit is far above real hardware: 4 exbibytes, or 4.6 quadrillion
// cores.
const Limit int64 = 1 << 62

// Amounts maps resources to amounts in base units: cpu in millicores, memory and other storage
// in bytes, everything else in units. A missing resource counts as zero. The nil map is usable.
//
// Arithmetic saturates at the bounds of int64 instead of wrapping. A sum of holds that
// overflows therefore stays larger than any offer and is refused. Amounts that pass
// FromResourceList are at most Limit, so only sums that no real fleet reaches saturate.
//
// Sub may return negative amounts: the caller has to see a shortfall.
type Amounts map[corev1.ResourceName]int64

// Clone returns an independent copy; nil stays nil.
func (a Amounts) Clone() Amounts { return maps.Clone(a) }

// IsZero reports whether every amount is zero.
func (a Amounts) IsZero() bool {
	for _, v := range a {
		if v != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether a and b hold the same amounts; a zero amount equals a missing resource.
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
func (a Amounts) Add(b Amounts) Amounts { return combineAmounts(a, b, addSaturating) }

// AddInPlace adds b to a, saturating. It is for sums of many amounts.
func (a Amounts) AddInPlace(b Amounts) {
	for name, v := range b {
		a[name] = addSaturating(a[name], v)
	}
}

// Sub returns a − b, saturating. The result names every resource of either.
func (a Amounts) Sub(b Amounts) Amounts { return combineAmounts(a, b, subSaturating) }

// Max returns the larger amount of every resource that either names. With nil as b it lifts
// negative amounts to zero.
func (a Amounts) Max(b Amounts) Amounts {
	return combineAmounts(a, b, func(x, y int64) int64 { return max(x, y) })
}

// AtMost returns a, limited by limits. Resources without a limit are not limited.
func (a Amounts) AtMost(limits Amounts) Amounts {
	out := a.Clone()
	for name, v := range out {
		if limit, ok := limits[name]; ok && limit < v {
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

// Names returns the named resources, sorted.
func (a Amounts) Names() []corev1.ResourceName {
	return slices.Sorted(maps.Keys(a))
}

// Shortage is a resource whose request exceeds what is free.
type Shortage struct {
	Resource corev1.ResourceName
	Need     int64
	Have     int64
}

// Fits reports whether request fits into free. If not, it returns the shortage of the first
// such resource by name, so that the result is deterministic. A request of zero or less always
// fits.
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

func combineAmounts(a, b Amounts, op func(x, y int64) int64) Amounts {
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
