package wire

import (
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// FuzzAmounts checks that accepted amounts are within bounds and survive a round trip.
func FuzzAmounts(f *testing.F) {
	for _, value := range []string{"4", "250m", "4Gi", "1.5", "1e40", "-1", "9223372036854775807", "1n", "0.0000001", "1e2147483647", "", "+1", "1E3", "4611686018427387904"} {
		f.Add("cpu", value)
		f.Add("memory", value)
		f.Add("nvidia.com/gpu", value)
	}
	f.Add("a/b/c", "1")
	f.Add("", "1")
	f.Fuzz(func(t *testing.T, name, value string) {
		amounts, err := ToAmounts(v1.Amounts{name: value})
		if err != nil {
			return
		}
		for resource, amount := range amounts {
			if amount < 0 || amount > quantity.Limit {
				t.Fatalf("%s %q became %d", resource, value, amount)
			}
		}
		again, err := ToAmounts(FromAmounts(amounts))
		if err != nil || !again.Equal(amounts) {
			t.Fatalf("%s %q became %v, then %v, %v", name, value, amounts, again, err)
		}
	})
}
