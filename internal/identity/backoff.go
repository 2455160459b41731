package identity

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Pauses between failing attempts: the first, and the longest.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// backoff spaces attempts that fail.
type backoff struct {
	failures int
	// until is when the next attempt may be made.
	until time.Time
}

// fail returns when to try again. The broker's own wish counts where it is longer.
func (b *backoff) fail(now time.Time, err error) time.Time {
	pause := min(firstPause<<min(b.failures, 16), longestPause)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		pause = max(pause, min(f.RetryAfter, longestPause))
	}
	b.failures++
	return b.wait(now, pause)
}

// wait puts the next attempt off, a little longer for some than for others.
func (b *backoff) wait(now time.Time, pause time.Duration) time.Time {
	b.until = now.Add(wait.Jitter(max(pause, firstPause), 0.2))
	return b.until
}
