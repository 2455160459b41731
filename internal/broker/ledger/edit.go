package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Change edits a reservation that stands. What is not named stays.
type Edit struct {
	Name string `json:"name"`
	// Generation numbers the requester's changes; it grows.
	Generation int64 `json:"generation"`
	// Digest of the request as it now is: the requester repeats that one.
	Digest string `json:"digest,omitempty"`
	// Duration and Until as in Reserve.
	Duration time.Duration `json:"duration,omitempty"`
	Until    time.Time     `json:"until"`
	// Amounts that are wanted from now on; nil leaves them. Where an agent speaks for the
	// provider they are in force with its Settle.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
	// Fallback is the digest of the request with the amounts that are agreed, for when
	// others are wanted and the provider refuses them; "" where none are.
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
	return s.checkAmountsOf(r, c.Amounts)
}

func (c *Edit) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	if w := r.Waiting; w != nil {
		w.Left = c.left(r.Duration, w.Left)
	}
	r.Generation, r.Duration, r.Until, r.Changed = c.Generation, c.Duration, c.Until, s.position
	if c.Digest != "" {
		r.Digest = c.Digest
	}
	r.Refusal = nil
	if r.Pending != nil {
		pending := *r.Pending // who was shown it must not see it change
		pending.Fallback = c.Fallback
		r.Pending = &pending
	}
	if c.Amounts != nil {
		s.changeAmounts(r, c)
	}
}

// left is how long one that waits is held in the end, which was left of a duration.
func (c *Edit) left(duration, left time.Duration) time.Duration {
	switch {
	case c.Duration == 0 || duration == 0:
		return c.Duration
	default:
		return max(left+c.Duration-duration, time.Second)
	}
}
