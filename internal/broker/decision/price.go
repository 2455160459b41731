package decision

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Price is money in billionths of a currency unit. The price of a resource is for one hour of
// one core, one GiB (for resources measured in bytes) or one piece.
type Price int64

// MaxPrice is the highest accepted price: a billion currency units.
const MaxPrice Price = 1_000_000_000 * priceUnit

const (
	pricePlaces       = 9
	priceUnit   Price = 1_000_000_000
	priceLength       = 32
)

// ErrPrice is matched by every error of ParsePrice.
var ErrPrice = errors.New("not a price")

// ParsePrice reads a decimal string such as "0.045". Signs, exponents, more than nine decimal
// places and prices above MaxPrice are errors. It is exact, and a valid price costs no
// allocation.
func ParsePrice(s string) (Price, error) {
	if err := plainDecimal(s); err != nil {
		return 0, err
	}
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" && fraction == "" || strings.Contains(fraction, ".") {
		return 0, fmt.Errorf("%q is %w: write a decimal number such as 0.045", s, ErrPrice)
	}
	if fraction = strings.TrimRight(fraction, "0"); point && len(fraction) > pricePlaces {
		return 0, fmt.Errorf("%q is %w: at most %d decimal places are kept", s, ErrPrice, pricePlaces)
	}
	whole = strings.TrimLeft(whole, "0")
	price, unit := Price(0), priceUnit
	for _, digit := range []byte(whole) {
		if price = price*10 + Price(digit-'0'); price > MaxPrice/priceUnit {
			return 0, tooDear(s)
		}
	}
	price *= priceUnit
	for _, digit := range []byte(fraction) {
		unit /= 10
		price += Price(digit-'0') * unit
	}
	if price > MaxPrice {
		return 0, tooDear(s)
	}
	return price, nil
}

func tooDear(s string) error {
	return fmt.Errorf("%q is %w: at most %s is accepted", s, ErrPrice, MaxPrice)
}

// String formats the price as a decimal number without trailing zeros.
func (p Price) String() string { return decimal.New(int64(p), -pricePlaces).String() }

// plainDecimal keeps exponents away from the decimal library: "1e999999999" is short to write
// and takes very long to compute with.
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

// basePerPriced returns the number of base units that one price covers.
func basePerPriced(name corev1.ResourceName) float64 {
	switch {
	case name == corev1.ResourceCPU:
		return 1000
	case quantity.InBytes(name):
		return 1 << 30
	}
	return 1
}
