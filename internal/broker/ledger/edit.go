package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Edit changes a standing reservation.
type Edit struct {
	Name string `json:"name"`
	// Generation numbers the requester's changes. It grows with each.
	Generation int64 `json:"generation"`
	// Digest is the digest of the request after the change. The requester repeats the changed
	// request.
	Digest string `json:"digest,omitempty"`
	// Duration and Until are as in Reserve.
	Duration time.Duration `json:"duration,omitempty"`
	Until    time.Time     `json:"until"`
	// Amounts are the new amounts; nil for no change. If the provider has an agent, they take
	// effect with its Settle.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
	// Fallback is the digest of the request with the old amounts, which stays in force if the
	// provider refuses the new ones; "" if Amounts is nil.
	Fallback string `json:"fallback,omitempty"`
}

func (c *Edit) subject() string { return c.Name }

func (c *Edit) checkAgainst(s *State) error {
	if err := s.checkLive(c.Name); err != nil {
		return err
	}
	r := s.reservations[c.Name]
	if c.Generation <= r.Generation {
		return fmt.Errorf("reservation %q: %w: generation %d, the newest is %d", c.Name, ErrTaken, c.Generation, r.Generation)
	}
	if c.Amounts == nil {
		return nil
	}
	return s.clusters.checkAmountsOf(r, c.Amounts)
}

func (c *Edit) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	if w := r.Waiting; w != nil {
		w.Left = c.timeLeft(r.Duration, w.Left)
	}
	r.Generation, r.Duration, r.Until, r.Changed = c.Generation, c.Duration, c.Until, s.position
	if c.Digest != "" {
		r.Digest = c.Digest
	}
	r.Refusal = nil
	if r.Pending != nil {
		pending := *r.Pending // views share the old one
		pending.Fallback = c.Fallback
		r.Pending = &pending
	}
	if c.Amounts != nil {
		s.changeAmounts(r, c)
	}
}

// timeLeft returns how long a waiting reservation will be held once it is granted.
func (c *Edit) timeLeft(duration, left time.Duration) time.Duration {
	switch {
	case c.Duration == 0 || duration == 0:
		return c.Duration
	default:
		return max(left+c.Duration-duration, time.Second)
	}
}
