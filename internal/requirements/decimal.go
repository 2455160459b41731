package requirements

import (
	"cmp"
	"strings"
)

// isDecimal accepts only digits with at most one point between them. compareDecimals compares such
// numbers exactly as text, whatever their length.
func isDecimal(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return isDigits(whole) && (!point || isDigits(fraction))
}

func isDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// compareDecimals compares two numbers that isDecimal accepts. The result is like that of
// cmp.Compare.
func compareDecimals(a, b string) int {
	wholeA, fractionA, _ := strings.Cut(a, ".")
	wholeB, fractionB, _ := strings.Cut(b, ".")
	wholeA, wholeB = strings.TrimLeft(wholeA, "0"), strings.TrimLeft(wholeB, "0")
	return cmp.Or(
		cmp.Compare(len(wholeA), len(wholeB)),
		cmp.Compare(wholeA, wholeB),
		cmp.Compare(strings.TrimRight(fractionA, "0"), strings.TrimRight(fractionB, "0")),
	)
}
