// Package money holds prices and sums of money as whole numbers: they are exact, use no floats,
// and have at most nine decimal places. The values do not contain their currency. The caller must
// make sure that it only adds values of the same currency.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Price is an amount of money in billionths of a currency unit. The price of a resource is for one
// hour of one core, of one GiB (for resources measured in bytes) or of one piece.
type Price int64

const (
	// Unit is one currency unit.
	Unit Price = 1_000_000_000
	// Max is the highest accepted price: a billion currency units.
	Max = 1_000_000_000 * Unit
)

const (
	// Places is the number of decimal places of a Price.
	Places = 9
	// longest is the maximum number of characters in the text of a price.
	longest = 32
)

// ErrPrice is wrapped by every error of ParsePrice.
var ErrPrice = errors.New("not a price")

// ParsePrice reads a decimal number such as "0.045". Signs, exponents, more than nine decimal
// places and prices above Max are errors. The result is exact. ParsePrice allocates no memory for
// a valid price.
func ParsePrice(s string) (Price, error) {
	if err := checkPlain(s); err != nil {
		return 0, err
	}
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" && fraction == "" || strings.Contains(fraction, ".") {
		return 0, fmt.Errorf("%q is %w: write a decimal number such as 0.045", s, ErrPrice)
	}
	if fraction = strings.TrimRight(fraction, "0"); point && len(fraction) > Places {
		return 0, fmt.Errorf("%q is %w: at most %d decimal places are kept", s, ErrPrice, Places)
	}
	whole = strings.TrimLeft(whole, "0")
	price, unit := Price(0), Unit
	for _, digit := range []byte(whole) {
		if price = price*10 + Price(digit-'0'); price > Max/Unit {
			return 0, errTooDear(s)
		}
	}
	price *= Unit
	for _, digit := range []byte(fraction) {
		unit /= 10
		price += Price(digit-'0') * unit
	}
	if price > Max {
		return 0, errTooDear(s)
	}
	return price, nil
}

func errTooDear(s string) error {
	return fmt.Errorf("%q is %w: at most %s is accepted", s, ErrPrice, Max)
}

// checkPlain returns an error unless s consists of 1 to 32 digits and points. This excludes
// exponents: "1e999999999" is short, but takes very long to compute with.
func checkPlain(s string) error {
	if s == "" || len(s) > longest {
		return fmt.Errorf("%q is %w: write 1 to %d characters", s, ErrPrice, longest)
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' {
			return fmt.Errorf("%q is %w: write digits and one decimal point", s, ErrPrice)
		}
	}
	return nil
}

// String formats the price as a decimal number without trailing zeros.
func (p Price) String() string { return p.Decimal().String() }

// Decimal returns the price in currency units.
func (p Price) Decimal() decimal.Decimal { return decimal.New(int64(p), -Places) }

// MarshalText returns the text of String.
func (p Price) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a price with ParsePrice.
func (p *Price) UnmarshalText(text []byte) error {
	read, err := ParsePrice(string(text))
	*p = read
	return err
}

// Plus returns p + q. If the sum overflows, it returns the largest Price.
func (p Price) Plus(q Price) Price {
	if p > math.MaxInt64-q {
		return math.MaxInt64
	}
	return p + q
}

// Of returns what an amount of a resource costs for one hour, where p is the resource's price and
// amount is in base units. It rounds half up to nine decimal places, and returns the largest Price
// if the result overflows. If p or amount is not positive, it returns 0.
func (p Price) Of(name corev1.ResourceName, amount int64) Price {
	if p <= 0 || amount <= 0 {
		return 0
	}
	per := uint64(BasePerPriced(name))
	hi, lo := bits.Mul64(uint64(p), uint64(amount))
	lo, carry := bits.Add64(lo, per/2, 0)
	if hi += carry; hi >= per {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, per)
	return Price(min(quotient, math.MaxInt64))
}

// BasePerPriced returns how many base units of a resource its price covers: 1000 millicores, the
// bytes of one GiB, or one piece.
func BasePerPriced(name corev1.ResourceName) int64 {
	switch {
	case name == corev1.ResourceCPU:
		return 1000
	case quantity.InBytes(name):
		return 1 << 30
	}
	return 1
}
