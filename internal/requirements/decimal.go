package requirements

import (
	"regexp"

	"github.com/shopspring/decimal"
)

// isDecimal reports whether a text consists of digits with at most one point between them. A sign
// or an exponent is not accepted.
var isDecimal = regexp.MustCompile(`^[0-9]+([.][0-9]+)?$`).MatchString

// compareDecimals compares exactly two numbers that isDecimal accepts, and returns -1, 0 or 1 as
// cmp.Compare does.
func compareDecimals(a, b string) int { return numberOf(a).Cmp(numberOf(b)) }

func numberOf(text string) decimal.Decimal {
	n, _ := decimal.NewFromString(text) // no error is possible after isDecimal; MaxWord bounds the length
	return n
}
