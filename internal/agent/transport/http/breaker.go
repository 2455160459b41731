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

// After tripAfter consecutive attempts without an answer, all calls fail at once for pauseTime.
// Then a single attempt is let through; if it is answered, the pause is over. tripAfter is the
// number of attempts that two calls make with all their retries. pauseTime is short compared with
// the time between two calls of an agent.
const (
	tripAfter = 2 * (1 + retries)
	pauseTime = 2 * time.Second
)

// pausedError is the error of a call that fails at once because of the pause. It does not wrap the
// error of the last attempt, which may be a timeout: this call has not waited.
type pausedError struct{ last error }

func (e *pausedError) Error() string {
	return fmt.Sprintf("pausing before the next attempt after %d attempts without an answer, the last: %v", tripAfter, e.last)
}

func isPaused(err error) bool {
	_, paused := errors.AsType[*pausedError](err)
	return paused
}

// breaker makes calls fail at once while the broker is down. Otherwise the calls for a hundred
// ResourceRequests would wait for their timeouts one after the other.
//
// Polls bypass the breaker. There are only two of them, with pauses of their own, and a poll would
// be a bad test of whether the broker is back: its answer may take a minute.
type breaker struct {
	Carrier
	circuit *gobreaker.CircuitBreaker[*nethttp.Response]
	// last is the error of the latest attempt without an answer.
	last atomic.Pointer[error]
	// watch is called before each attempt. The function that it returns is called after the
	// attempt. watch may be nil.
	watch func(*nethttp.Request) (done func(*nethttp.Response, error))
}

func newBreaker(c Carrier) *breaker {
	return &breaker{Carrier: c, circuit: gobreaker.NewCircuitBreaker[*nethttp.Response](gobreaker.Settings{ //nolint:bodyclose // none is opened here
		Timeout:     pauseTime,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= tripAfter },
		IsExcluded:  isNeutral,
	})}
}

// isNeutral reports whether an error says nothing about the broker: the caller gave up, or a
// certificate must be replaced.
func isNeutral(err error) bool { return errors.Is(err, context.Canceled) || isPermanent(err) }

// RoundTrip makes one attempt. Every response counts as an answer, even one with an error status.
func (b *breaker) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	if b.watch == nil {
		return b.attempt(request)
	}
	done := b.watch(request)
	response, err := b.attempt(request)
	done(response, err)
	return response, err
}

// attempt makes one attempt. The breaker may make it fail at once, unless it is a poll.
func (b *breaker) attempt(request *nethttp.Request) (*nethttp.Response, error) {
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
