package money

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/shopspring/decimal"
)

// Sum is a rate multiplied by seconds and added up over time, as a whole number of 128 bits that
// is never negative. For money the rate is a price per hour, so a Sum is in billionths of a
// currency unit × seconds ÷ hour. For the use of a resource the rate is its amount, so a Sum is
// in base units × seconds. The largest rates overflow a Sum only after thousands of years. It
// then keeps the largest value.
type Sum struct{ hi, lo uint64 }

const secondsPerHour = 3600

// Over returns rate × seconds; zero if either is negative.
func Over[T ~int64](rate T, seconds int64) Sum {
	if rate <= 0 || seconds <= 0 {
		return Sum{}
	}
	hi, lo := bits.Mul64(uint64(rate), uint64(seconds))
	return Sum{hi, lo}
}

// Once returns the sum for a price that is charged once, and not per hour.
func Once(p Price) Sum { return Over(p, secondsPerHour) }

// Plus returns s + t. If the sum overflows, it returns the largest Sum.
func (s Sum) Plus(t Sum) Sum {
	lo, carry := bits.Add64(s.lo, t.lo, 0)
	hi, over := bits.Add64(s.hi, t.hi, carry)
	if over != 0 {
		return Sum{math.MaxUint64, math.MaxUint64}
	}
	return Sum{hi, lo}
}

// Minus returns s − t; zero if t is larger than s.
func (s Sum) Minus(t Sum) Sum {
	lo, borrow := bits.Sub64(s.lo, t.lo, 0)
	hi, under := bits.Sub64(s.hi, t.hi, borrow)
	if under != 0 {
		return Sum{}
	}
	return Sum{hi, lo}
}

// Times returns s × n; zero if n is negative. If the product overflows, it returns the largest
// Sum.
func (s Sum) Times(n int64) Sum {
	if n <= 0 {
		return Sum{}
	}
	hi, lo := bits.Mul64(s.lo, uint64(n))
	over, more := bits.Mul64(s.hi, uint64(n))
	sum, carry := bits.Add64(hi, more, 0)
	if over != 0 || carry != 0 {
		return Sum{math.MaxUint64, math.MaxUint64}
	}
	return Sum{sum, lo}
}

// Int64 returns the sum as an int64. If the sum is too large for that, it returns the largest
// int64.
func (s Sum) Int64() int64 {
	if s.hi != 0 || s.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.lo)
}

// Cmp compares s and t as cmp.Compare does.
func (s Sum) Cmp(t Sum) int { return s.Int().Cmp(t.Int()) }

// Equal reports whether s and t are the same number.
func (s Sum) Equal(t Sum) bool { return s == t }

// IsZero reports whether the sum is zero.
func (s Sum) IsZero() bool { return s == Sum{} }

// Int returns the sum as a big.Int.
func (s Sum) Int() *big.Int {
	out := new(big.Int).SetUint64(s.hi)
	return out.Or(out.Lsh(out, 64), new(big.Int).SetUint64(s.lo))
}

// Money converts a sum of prices per hour to currency units. It rounds to nine decimal places. A
// number halfway between two results is rounded to the even one.
func (s Sum) Money() decimal.Decimal {
	return decimal.NewFromBigInt(s.Int(), -Places).DivRound(decimal.NewFromInt(secondsPerHour), 30).RoundBank(Places)
}

// MarshalText returns the number in decimal.
func (s Sum) MarshalText() ([]byte, error) { return s.Int().Append(nil, 10), nil }

// UnmarshalText reads the text of MarshalText.
func (s *Sum) UnmarshalText(text []byte) error {
	if small, err := strconv.ParseUint(string(text), 10, 64); err == nil { // most sums, several times faster
		*s = Sum{lo: small}
		return nil
	}
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return fmt.Errorf("sum %.50q: want a whole number of at most 128 bits", text)
	}
	s.lo = new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	s.hi = n.Rsh(n, 64).Uint64()
	return nil
}
