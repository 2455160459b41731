package ledger

import (
	"fmt"
	"time"
)

// Change edits a reservation that stands. What is not named stays.
type Change struct {
	Name string `json:"name"`
	// Generation numbers the requester's changes; it grows.
	Generation int64 `json:"generation"`
	// Digest of the request as it now is: the requester repeats that one.
	Digest string `json:"digest,omitempty"`
	// Duration and Until as in Reserve.
	Duration time.Duration `json:"duration,omitempty"`
	Until    time.Time     `json:"until"`
}

func (s *State) checkChange(c *Change) error {
	if err := s.checkLive(c.Name); err != nil {
		return err
	}
	if r := s.reservations[c.Name]; c.Generation <= r.Generation {
		return fmt.Errorf("reservation %q: %w: generation %d, the newest is %d", c.Name, ErrTaken, c.Generation, r.Generation)
	}
	return nil
}

func (s *State) applyChange(c *Change) {
	r := s.reservations[c.Name]
	if w := r.Waiting; w != nil {
		w.Left = c.left(r.Duration, w.Left)
	}
	r.Generation, r.Duration, r.Until, r.Changed = c.Generation, c.Duration, c.Until, s.position
	if c.Digest != "" {
		r.Digest = c.Digest
	}
}

// left is how long one that waits is held in the end, which was left of a duration.
func (c *Change) left(duration, left time.Duration) time.Duration {
	switch {
	case c.Duration == 0 || duration == 0:
		return c.Duration
	default:
		return max(left+c.Duration-duration, time.Second)
	}
}
