package identity

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// firstPause is the pause after the first failed attempt. The pause doubles with each failure, up
// to longestPause.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// backoff computes the pauses between attempts that fail.
type backoff struct {
	failures int
	// until is the earliest time for the next attempt.
	until time.Time
}

// nextAfterFailure returns when to try again. A longer pause that the broker asks for with
// Retry-After is respected up to longestPause.
func (b *backoff) nextAfterFailure(now time.Time, err error) time.Time {
	pause := min(firstPause<<min(b.failures, 16), longestPause)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		pause = max(pause, min(f.RetryAfter, longestPause))
	}
	b.failures++
	return b.delayNext(now, pause)
}

// delayNext sets the next attempt to now plus pause, which is at least firstPause, with up to 20 %
// added at random.
func (b *backoff) delayNext(now time.Time, pause time.Duration) time.Time {
	b.until = now.Add(wait.Jitter(max(pause, firstPause), 0.2))
	return b.until
}
