package requirements

import (
	"regexp"

	"github.com/shopspring/decimal"
)

// isDecimal accepts only digits with at most one point between them: no sign and no exponent.
var isDecimal = regexp.MustCompile(`^[0-9]+([.][0-9]+)?$`).MatchString

// compareDecimals compares two numbers that isDecimal accepts, exactly. The result is like that of
// cmp.Compare.
func compareDecimals(a, b string) int { return numberOf(a).Cmp(numberOf(b)) }

func numberOf(text string) decimal.Decimal {
	n, _ := decimal.NewFromString(text) // a claim has at most MaxWord digits
	return n
}
