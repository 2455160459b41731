package decision

import (
	"errors"
	"fmt"
	"math"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Price is money in billionths of a currency unit. As the price of a resource it
// is for one hour of one core, one GiB (of what is measured in bytes) or one piece.
type Price int64

// MaxPrice is the highest price accepted: a billion currency units.
const MaxPrice Price = 1_000_000_000 * priceUnit

const (
	pricePlaces       = 9
	priceUnit   Price = 1_000_000_000
	priceLength       = 32
)

// ErrPrice is matched by every error of ParsePrice.
var ErrPrice = errors.New("not a price")

// ParsePrice reads a decimal string such as "0.045". Signs, exponents, more than
// nine decimal places and prices above MaxPrice are errors.
func ParsePrice(s string) (Price, error) {
	if err := plainDecimal(s); err != nil {
		return 0, err
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return 0, fmt.Errorf("%q is %w: write a decimal number such as 0.045", s, ErrPrice)
	}
	scaled := d.Shift(pricePlaces)
	if !scaled.IsInteger() {
		return 0, fmt.Errorf("%q is %w: at most %d decimal places are kept", s, ErrPrice, pricePlaces)
	}
	if scaled.GreaterThan(decimal.NewFromInt(int64(MaxPrice))) {
		return 0, fmt.Errorf("%q is %w: at most %s is accepted", s, ErrPrice, MaxPrice)
	}
	return Price(scaled.IntPart()), nil
}

// String writes the price as a decimal number without trailing zeros.
func (p Price) String() string { return decimal.New(int64(p), -pricePlaces).String() }

// plainDecimal keeps exponents away from the decimal library: "1e999999999" is
// short to write and very long to compute with.
func plainDecimal(s string) error {
	if s == "" || len(s) > priceLength {
		return fmt.Errorf("%q is %w: write 1 to %d characters", s, ErrPrice, priceLength)
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' {
			return fmt.Errorf("%q is %w: write digits and one decimal point", s, ErrPrice)
		}
	}
	return nil
}

// basePerPriced is how many base units one price is for.
func basePerPriced(name corev1.ResourceName) float64 {
	switch {
	case name == corev1.ResourceCPU:
		return 1000
	case quantity.InBytes(name):
		return 1 << 30
	}
	return 1
}

func toPrice(cost float64) Price {
	if cost >= math.MaxInt64 {
		return math.MaxInt64
	}
	return Price(math.Round(cost))
}
