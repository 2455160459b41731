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

// After tripAfter attempts in a row that got no answer the broker is left alone for
// leftAlone. Then one attempt finds out whether it is back, while the others still fail.
// That is two calls with all their retries, and little against the seconds that agents
// wait between two calls.
const (
	tripAfter = 2 * (1 + retries)
	leftAlone = 2 * time.Second
)

var errLeftAlone = errors.New("left alone for a moment")

// breaker has calls fail at once while the broker answers nobody, so that a hundred requests
// do not wait for their timeouts one after the other. Polls get past it: there are two, which
// pause by themselves, and one of them would say for a minute nothing of the broker.
type breaker struct {
	Carrier
	circuit *gobreaker.CircuitBreaker[*nethttp.Response]
	// last is why there was no answer.
	last atomic.Pointer[error]
}

func newBreaker(c Carrier) *breaker {
	return &breaker{Carrier: c, circuit: gobreaker.NewCircuitBreaker[*nethttp.Response](gobreaker.Settings{ //nolint:bodyclose // none is opened here
		Timeout:     leftAlone,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= tripAfter },
		IsExcluded:  saysNothing,
	})}
}

// saysNothing of the broker: a caller that gave up, and certificates that somebody has to
// change.
func saysNothing(err error) bool { return errors.Is(err, context.Canceled) || permanent(err) }

// RoundTrip is one attempt. Whatever a broker answers is an answer.
func (b *breaker) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	if isPoll(request) {
		return b.Carrier.RoundTrip(request)
	}
	response, err := b.circuit.Execute(func() (*nethttp.Response, error) {
		response, err := b.Carrier.RoundTrip(request)
		if err != nil && !saysNothing(err) {
			b.last.Store(&err)
		}
		return response, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		closeBody(request)
		return nil, fmt.Errorf("%w after %d attempts without an answer, the last: %v", errLeftAlone, tripAfter, *b.last.Load()) //nolint:errorlint // this call did not wait itself, and must not look like a timeout
	}
	return response, err
}
