package requirements

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestClaims(t *testing.T) {
	cases := map[string]struct {
		required string
		met, not []string
	}{
		"any value":               {"", []string{"", "true", "99"}, nil},
		"one value":               {"gold", []string{"gold"}, []string{"", "Gold", "gold "}},
		"at least a number":       {">=99.9", []string{"99.9", "99.90", "99.95", "100", "0100"}, []string{"99.89", "9.99", "", "gold", "1e9", "-1", "99.", ".9"}},
		"at most a number":        {"<= 20", []string{"20", "19.999", "0"}, []string{"20.001", "ms"}},
		"a number as such":        {"99.9", []string{"99.9"}, []string{"99.90"}},
		"a number of many digits": {">=10000000000000000000000.1", []string{"10000000000000000000000.11"}, []string{"9999999999999999999999.9"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := ParseClaim(tc.required)
			runtest.Check(t, err)
			for _, claimed := range tc.met {
				if !c.MetBy(claimed) {
					t.Errorf("%q does not meet %q", claimed, tc.required)
				}
			}
			for _, claimed := range tc.not {
				if c.MetBy(claimed) {
					t.Errorf("%q meets %q", claimed, tc.required)
				}
			}
		})
	}
	for _, wrong := range []string{">=", "<=gold", ">=1e9", ">= -1", ">=1.2.3"} {
		if _, err := ParseClaim(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestDecimalsCompareAsNumbers(t *testing.T) {
	number := rapid.StringMatching(`[0-9]{1,25}(\.[0-9]{1,25})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got, want := compareDecimals(a, b), x.Cmp(y); got != want {
			t.Fatalf("%s and %s: %d, want %d", a, b, got, want)
		}
	})
}

func FuzzParseClaim(f *testing.F) {
	for _, seed := range []string{"", "gold", ">=99.9", "<=1", ">= 5", ">=x", "<=="} {
		f.Add(seed, "99.9")
	}
	f.Fuzz(func(t *testing.T, text, claimed string) {
		c, err := ParseClaim(text)
		if err != nil {
			return
		}
		again, err := ParseClaim(c.String())
		if err != nil || again != c {
			t.Fatalf("%q became %q: %v", text, c, err)
		}
		c.MetBy(claimed)
	})
}
