// Package quantity holds amounts of cluster resources as whole numbers, so that the broker can
// add, subtract and compare them exactly and without allocating memory.
package quantity

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Limit is the largest accepted amount of one resource in base units: 4 exbibytes, or 4.6
// quadrillion cores. No hardware reaches it. The difference of two amounts up to Limit fits
// into an int64.
const Limit int64 = 1 << 62

// Amounts maps resources to amounts in base units: cpu in millicores, memory and other storage
// in bytes, everything else in pieces. A missing resource counts as zero. The nil map can be
// used.
//
// If a result would overflow, it is the smallest or largest int64. A sum of reservations that
// overflows therefore stays larger than any capacity, and the broker refuses it. Overflows do not
// happen in practice, because amounts from FromResourceList are at most Limit.
//
// Sub may return negative amounts, because callers must see a shortfall.
type Amounts map[corev1.ResourceName]int64

// Clone returns an independent copy of a; nil if a is nil.
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

// Equal reports whether a and b hold the same amounts. A resource with a zero amount equals a
// missing one.
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

// Add returns a + b for every resource that either names.
func (a Amounts) Add(b Amounts) Amounts { return combineAmounts(a, b, addSaturating) }

// AddInPlace adds b to a and changes a. Unlike Add it allocates no new map for each sum.
func (a Amounts) AddInPlace(b Amounts) {
	for name, v := range b {
		a[name] = addSaturating(a[name], v)
	}
}

// Sub returns a − b for every resource that either names. Amounts may be negative.
func (a Amounts) Sub(b Amounts) Amounts { return combineAmounts(a, b, subSaturating) }

// Max returns, for every resource that either names, the larger amount. A missing amount counts
// as zero, so a.Max(nil) replaces negative amounts by zero.
func (a Amounts) Max(b Amounts) Amounts {
	return combineAmounts(a, b, func(x, y int64) int64 { return max(x, y) })
}

// AtMost returns a, with every amount above its limit reduced to the limit. Resources that
// limits does not name stay as they are.
func (a Amounts) AtMost(limits Amounts) Amounts {
	out := a.Clone()
	for name, v := range out {
		if limit, ok := limits[name]; ok && limit < v {
			out[name] = limit
		}
	}
	return out
}

// Times returns every amount multiplied by n, which must not be negative.
func (a Amounts) Times(n int64) Amounts {
	out := make(Amounts, len(a))
	for name, v := range a {
		out[name] = mulSaturating(v, n)
	}
	return out
}

// Names returns the resources that a names, sorted.
func (a Amounts) Names() []corev1.ResourceName {
	return slices.Sorted(maps.Keys(a))
}

// Shortage is a resource of which less is free (Have) than requested (Need).
type Shortage struct {
	Resource corev1.ResourceName
	Need     int64
	Have     int64
}

// Fits reports whether request fits into free. If it does not, Fits returns the shortage of the
// missing resource whose name sorts first, so that the result does not depend on the order of
// the map. A requested amount of zero or less always fits.
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

// Describe formats amounts for logs and messages, sorted by resource, for example "cpu=4 memory=8Gi".
func (a Amounts) Describe() string {
	parts := make([]string, 0, len(a))
	for _, name := range a.Names() {
		parts = append(parts, fmt.Sprintf("%s=%s", name, Format(name, a[name])))
	}
	return strings.Join(parts, " ")
}

// HasMoreThan reports whether any of the amounts is larger than the one in before.
func (a Amounts) HasMoreThan(before Amounts) bool {
	for name, amount := range a {
		if amount > before[name] {
			return true
		}
	}
	return false
}
