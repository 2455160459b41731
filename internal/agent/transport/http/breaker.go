package http

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// After tripAfter consecutive attempts without an answer, calls fail immediately for pauseTime.
// Then one attempt probes the broker, while the others still fail. tripAfter equals two calls
// with all their retries, and the pause is short compared to the seconds between an agent's
// calls.
const (
	tripAfter = 2 * (1 + retries)
	pauseTime = 2 * time.Second
)

// pausedError is the error of a call that fails at once. It does not wrap the last attempt's error:
// this call did not wait itself and must not look like a timeout.
type pausedError struct{ last error }

func (e *pausedError) Error() string {
	return fmt.Sprintf("pausing before the next attempt after %d attempts without an answer, the last: %v", tripAfter, e.last)
}

func isPaused(err error) bool {
	_, paused := errors.AsType[*pausedError](err)
	return paused
}

// breaker fails calls immediately while the broker is down, so that a hundred requests do not
// wait for their timeouts one after the other. Polls bypass it: there are only two, they pause
// by themselves, and a poll that waits for a minute would tell nothing about the broker
// meanwhile.
type breaker struct {
	Carrier
	circuit *gobreaker.CircuitBreaker[*nethttp.Response]
	// last is the last error without an answer.
	last atomic.Pointer[error]
}

func newBreaker(c Carrier) *breaker {
	return &breaker{Carrier: c, circuit: gobreaker.NewCircuitBreaker[*nethttp.Response](gobreaker.Settings{ //nolint:bodyclose // none is opened here
		Timeout:     pauseTime,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= tripAfter },
		IsExcluded:  isNeutral,
	})}
}

// isNeutral reports whether an error reveals nothing about the broker: the caller gave up, or a
// certificate must be replaced.
func isNeutral(err error) bool { return errors.Is(err, context.Canceled) || isPermanent(err) }

// RoundTrip is one attempt. Any response, even an error status, counts as an answer.
func (b *breaker) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	if isPoll(request) {
		return b.Carrier.RoundTrip(request)
	}
	response, err := b.circuit.Execute(func() (*nethttp.Response, error) {
		response, err := b.Carrier.RoundTrip(request)
		if err != nil && !isNeutral(err) {
			b.last.Store(&err)
		}
		return response, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		closeBody(request)
		return nil, &pausedError{last: *b.last.Load()}
	}
	return response, err
}
