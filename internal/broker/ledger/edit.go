package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Edit changes the duration or the amounts of a reservation that has not ended.
type Edit struct {
	Name string `json:"name"`
	// Generation is the requester's number for the change. It grows with each change.
	Generation int64 `json:"generation"`
	// Digest is the digest of the request after the change. A requester that repeats its request
	// sends the changed one.
	Digest string `json:"digest,omitempty"`
	// Duration and Until are the new values of Reserve.Duration and Reserve.Until.
	Duration time.Duration `json:"duration,omitempty"`
	Until    time.Time     `json:"until"`
	// Amounts are the new amounts; nil to keep the old ones. If the provider has an agent, they
	// take effect when it accepts them with a Settle.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
	// Fallback is the digest of the request with the old amounts, which stays in force if the
	// provider refuses the new ones; "" if Amounts is nil.
	Fallback string `json:"fallback,omitempty"`
}

func (c *Edit) subject() string { return c.Name }

func (c *Edit) checkAgainst(s *State) error {
	r, err := s.findLive(c.Name)
	if err != nil {
		return err
	}
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
	if s.by != "" || r.History != nil {
		r.updateHistory(func(h *History) { h.ChangedBy = s.shared.internActor(s.by) })
	}
	r.Refusal = nil
	if r.Pending != nil {
		pending := *r.Pending // views share the old Pending
		pending.Fallback = c.Fallback
		r.Pending = &pending
	}
	if c.Amounts != nil {
		s.changeAmounts(r, c)
	}
}

// timeLeft returns for how long a waiting reservation will be held after its grant, once the edit
// is applied. duration is the duration before the edit, and left is how much of it was left.
func (c *Edit) timeLeft(duration, left time.Duration) time.Duration {
	if c.Duration == 0 || duration == 0 {
		return c.Duration
	}
	return max(left+c.Duration-duration, time.Second)
}
