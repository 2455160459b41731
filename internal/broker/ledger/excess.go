package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Exceed records a provider's report that a requester ran more for a placement than it was granted,
// and that the provider evicted pods for this reason. Package reputation describes how
// much one provider's reports count.
type Exceed struct {
	PlacementRef
	// Pods is how many pods the provider has evicted so far.
	Pods int32 `json:"pods"`
	// Amounts are the largest amounts above the grant that the provider has seen.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
}

// Excess is by how much a requester exceeded the grant of a placement.
type Excess struct {
	Pods    int32
	Amounts quantity.Amounts `json:",omitempty"`
	// At is when Pods or Amounts last changed.
	At time.Time
}

// MaxExcess is how many resources an Exceed may name.
const MaxExcess = 16

// Grows reports whether any of the given figures is larger than the known one.
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
	if err := s.checkHolds(e.PlacementRef); err != nil {
		return err
	}
	if _, p := s.findPlacement(e.PlacementRef); !p.Excess.Grows(e.Pods, e.Amounts) {
		return fmt.Errorf("placement %s: %w: that excess is known", e.PlacementRef, ErrTaken)
	}
	return nil
}

func (e *Exceed) applyTo(s *State, at time.Time) {
	r, p := s.findPlacement(e.PlacementRef)
	known := Excess{}
	if p.Excess != nil {
		known = *p.Excess
	}
	p.Excess = &Excess{Pods: max(known.Pods, e.Pods), Amounts: known.Amounts.Max(e.Amounts), At: at}
	r.Changed = s.position
	if c := s.Cluster(r.Requester); c != nil {
		c.Consuming = c.Consuming.Failed(at, p.AssignedAt.Time(), p.Provider, reputation.Failure)
	}
}

func (cs *clusters) noteKeptWithin(at time.Time, r *Reservation, p *Placement) {
	if c := cs.byID[r.Requester]; c != nil && p.Excess == nil {
		c.Consuming = c.Consuming.Served(at, p.AssignedAt.Time(), p.Provider)
	}
}
