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

// backoff spaces out failing attempts.
type backoff struct {
	failures int
	// until is the earliest time of the next attempt.
	until time.Time
}

// nextAfterFailure returns when to try again. It honours a longer Retry-After of the broker.
func (b *backoff) nextAfterFailure(now time.Time, err error) time.Time {
	pause := min(firstPause<<min(b.failures, 16), longestPause)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		pause = max(pause, min(f.RetryAfter, longestPause))
	}
	b.failures++
	return b.delayNext(now, pause)
}

// delayNext delays the next attempt, with jitter.
func (b *backoff) delayNext(now time.Time, pause time.Duration) time.Time {
	b.until = now.Add(wait.Jitter(max(pause, firstPause), 0.2))
	return b.until
}
