package ledger

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Unused yields the amounts that each placement holds on the cluster but does not use, sorted by
// placement name. It omits placements that use everything they hold.
func (c *Cluster) Unused() iter.Seq2[string, quantity.Amounts] {
	return func(yield func(string, quantity.Amounts) bool) {
		for _, name := range slices.Sorted(maps.Keys(c.holds)) {
			if unused := c.holds[name].Sub(c.Used[name]).Max(nil); !unused.IsZero() && !yield(name, unused) {
				return
			}
		}
	}
}

// Placed returns the reservation to which the placement with the given name belongs, nil if there
// is no such placement.
func (s *State) Placed(placement string) *Reservation {
	cut := strings.LastIndexByte(placement, '-')
	if cut < 0 {
		return nil
	}
	number, err := strconv.Atoi(placement[cut+1:])
	r := s.reservations[placement[:cut]]
	if err != nil || r == nil || r.Placement(int32(number)) == nil {
		return nil
	}
	return r
}
