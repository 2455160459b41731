package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Exceed notes that a requester ran more for a placement than it was granted. The
// provider says so, and has evicted pods for it. The word of one provider counts for that
// provider alone, see Conduct.
type Exceed struct {
	PlacementRef
	// Pods is how many pods the provider has evicted so far.
	Pods int32 `json:"pods"`
	// Amounts are the largest that the provider has seen beyond the grant.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
}

// Excess is what a requester ran beyond the grant of a placement.
type Excess struct {
	Pods    int32
	Amounts quantity.Amounts `json:",omitempty"`
	// At is when the figures changed last.
	At time.Time
}

// MaxExcess is how many resources an Exceed may name.
const MaxExcess = 16

// Grows reports whether figures go beyond those that are known.
func (x *Excess) Grows(pods int32, amounts quantity.Amounts) bool {
	if x == nil {
		return pods > 0 || !amounts.IsZero()
	}
	for name, amount := range amounts {
		if amount > x.Amounts[name] {
			return true
		}
	}
	return pods > x.Pods
}

func (e *Exceed) checkAgainst(s *State) error {
	if e.Pods < 0 || len(e.Amounts) > MaxExcess {
		return fmt.Errorf("placement %s: %w: excess of %d pods and %d resources, at most %d", e.PlacementRef, ErrMalformed, e.Pods, len(e.Amounts), MaxExcess)
	}
	if err := checkAmounts(e.Amounts); err != nil {
		return fmt.Errorf("placement %s: excess: %w", e.PlacementRef, err)
	}
	_, p := s.placement(e.PlacementRef)
	switch {
	case p == nil:
		return fmt.Errorf("placement %s: %w", e.PlacementRef, ErrUnknown)
	case p.ProviderGone:
		return fmt.Errorf("placement %s: %w", e.PlacementRef, ErrOver)
	case !p.Excess.Grows(e.Pods, e.Amounts):
		return fmt.Errorf("placement %s: %w: that much excess is known", e.PlacementRef, ErrTaken)
	}
	return nil
}

func (e *Exceed) applyTo(s *State, at time.Time) {
	r, p := s.placement(e.PlacementRef)
	known := Excess{}
	if p.Excess != nil {
		known = *p.Excess
	}
	p.Excess = &Excess{Pods: max(known.Pods, e.Pods), Amounts: known.Amounts.Max(e.Amounts), At: at}
	r.Changed = s.position
	s.consuming(at, r.Requester, true, func(c *Conduct) { c.fail(at, p.Provider, PlacementName(r.Name, p.Number), failurePoints) })
}

// keptWithin notes that a placement is gone for which no excess was reported.
func (s *State) keptWithin(at time.Time, r *Reservation, p *Placement) {
	if p.Excess == nil {
		s.consuming(at, r.Requester, false, func(c *Conduct) { c.succeed(at, p.Provider, PlacementName(r.Name, p.Number)) })
	}
}
