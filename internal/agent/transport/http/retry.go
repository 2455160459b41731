package http

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	nethttp "net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// How often and after which pauses a call is retried. When all retries have failed, the caller
// decides when to call again.
const (
	retries      = 3
	retryWaitMin = 100 * time.Millisecond
	retryWaitMax = 400 * time.Millisecond
	// maxRetryAfter is the longest Retry-After that a retry waits for. If the broker asks for a
	// longer pause, the call returns the broker's answer instead.
	maxRetryAfter = 2 * time.Second
)

// retrier repeats requests that failed, if shouldRetry says that this may help.
type retrier struct{ client *retryablehttp.Client }

func newRetrier(c nethttp.RoundTripper) retrier {
	return retrier{&retryablehttp.Client{
		HTTPClient: &nethttp.Client{
			Transport: c,
			// The API does not redirect. Following a redirect could show the certificate to another
			// server.
			CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse },
		},
		RetryMax:     retries,
		RetryWaitMin: retryWaitMin,
		RetryWaitMax: retryWaitMax,
		CheckRetry:   shouldRetry,
		Backoff:      jitteredBackoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}}
}

// Do implements v1.HttpRequestDoer.
func (r retrier) Do(request *nethttp.Request) (*nethttp.Response, error) {
	repeatable, err := retryablehttp.FromRequest(request)
	if err != nil {
		return nil, err
	}
	return r.client.Do(repeatable)
}

func shouldRetry(ctx context.Context, response *nethttp.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return !isPermanent(err), nil
	}
	overloaded := response.StatusCode == nethttp.StatusTooManyRequests || response.StatusCode >= nethttp.StatusInternalServerError
	return overloaded && retryAfter(response) <= maxRetryAfter, nil
}

// isPermanent reports whether an error will persist until a certificate is replaced.
func isPermanent(err error) bool { return errors.Is(err, errCredentials) || isUntrusted(err) }

// isUntrusted reports whether an error means that one side rejected the other's certificate.
func isUntrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	// net/http reports a TLS alert from the server in this form.
	return ok && op.Op == "remote error"
}

// jitteredBackoff returns the pause before the next attempt. Its jitter keeps agents that failed
// at the same time from retrying at the same time.
func jitteredBackoff(lowest, highest time.Duration, attempt int, response *nethttp.Response) time.Duration {
	wait := retryablehttp.RateLimitLinearJitterBackoff(lowest, highest, attempt, response)
	return wait + rand.N(wait/4+1)
}
