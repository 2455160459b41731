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

// Retries within one call. The caller's own loop goes on from there.
const (
	retries      = 3
	retryWaitMin = 100 * time.Millisecond
	retryWaitMax = 400 * time.Millisecond
	// maxRetryAfter is the longest wish of the broker that is waited for within a
	// call; a longer one is handed to the caller.
	maxRetryAfter = 2 * time.Second
)

// retrier sends requests again where that can help.
type retrier struct{ client *retryablehttp.Client }

func newRetrier(c nethttp.RoundTripper) retrier {
	return retrier{&retryablehttp.Client{
		HTTPClient: &nethttp.Client{
			Transport: c,
			// The API redirects nowhere, and a certificate is not shown to strangers.
			CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse },
		},
		RetryMax:     retries,
		RetryWaitMin: retryWaitMin,
		RetryWaitMax: retryWaitMax,
		CheckRetry:   worthRetrying,
		Backoff:      jittered,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}}
}

// Do is v1.HttpRequestDoer.
func (r retrier) Do(request *nethttp.Request) (*nethttp.Response, error) {
	repeatable, err := retryablehttp.FromRequest(request)
	if err != nil {
		return nil, err
	}
	return r.client.Do(repeatable)
}

func worthRetrying(ctx context.Context, response *nethttp.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return !permanent(err) && !errors.Is(err, errLeftAlone), nil
	}
	overloaded := response.StatusCode == nethttp.StatusTooManyRequests || response.StatusCode >= nethttp.StatusInternalServerError
	return overloaded && retryAfter(response) <= maxRetryAfter, nil
}

// permanent errors last until somebody changes a certificate.
func permanent(err error) bool { return errors.Is(err, errCredentials) || untrusted(err) }

// untrusted means that one side does not take the other's certificate.
func untrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	// What a peer says in a TLS alert.
	return ok && op.Op == "remote error"
}

// jittered keeps agents that failed together from coming back together.
func jittered(lowest, highest time.Duration, attempt int, response *nethttp.Response) time.Duration {
	wait := retryablehttp.RateLimitLinearJitterBackoff(lowest, highest, attempt, response)
	return wait + rand.N(wait/4+1)
}
