package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"sync/atomic"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
)

const (
	// callTimeout bounds a call with all its retries. A poll gets it beside its wait.
	callTimeout = 10 * time.Second
	// maxWait is the longest poll of the API.
	maxWait = 60 * time.Second
)

// Options of a Transport. URLs and Files are required.
type Options struct {
	// URLs of the broker's replicas, https://host[:port]. The first is used until it
	// does not answer, then the next.
	URLs []string
	// Files hold the agent's certificate and the CA of the broker. What replaces them is
	// in use a second later; calls under way end on the old ones.
	Files *pki.Files
	// UserAgent names the agent and its version in the broker's sight.
	UserAgent string
}

// Carrier takes requests to a broker and brings its answers. Each RoundTrip is one
// attempt; requests keep their path, query, headers and body whatever carries them.
type Carrier interface {
	nethttp.RoundTripper
	// Close gives back what the carrier keeps open.
	Close()
}

// Transport speaks to the broker's REST API. It is safe for concurrent use.
type Transport struct {
	api     *v1.Client
	carrier Carrier
	// urls are where the broker is, for people.
	urls []string
	// cursor of the last instructions, which every call shows: a broker that was
	// restored from an older state learns from it that it was.
	cursor atomic.Pointer[string]
	// closed ends with Close, and every call with it.
	closed context.Context
	close  context.CancelFunc
}

var _ transport.Transport = (*Transport)(nil)

// New checks the URLs; it does not connect.
func New(o Options) (*Transport, error) {
	bases, err := parseURLs("--broker-url", o.URLs)
	if err != nil {
		return nil, err
	}
	if o.Files == nil {
		return nil, errors.New("broker transport without certificates: set --broker-cert-path")
	}
	// Which replica is asked is the connector's choice, at every attempt.
	return Over(&connector{bases: bases, files: o.Files, userAgent: o.UserAgent}, o.URLs...)
}

// Over makes the transport of requests that c carries to the first of urls; they are
// what errors name.
func Over(c Carrier, urls ...string) (*Transport, error) {
	closed, closeNow := context.WithCancel(context.Background())
	c = newBreaker(c)
	t := &Transport{carrier: c, urls: urls, closed: closed, close: closeNow}
	var err error
	t.api, err = v1.NewClient(urls[0], v1.WithHTTPClient(newRetrier(c)), v1.WithRequestEditorFn(t.show))
	if err != nil {
		return nil, fmt.Errorf("address of the broker: %w", err)
	}
	return t, nil
}

// show adds what every call tells of its caller.
func (t *Transport) show(_ context.Context, request *nethttp.Request) error {
	request.Header.Set(v1.MinorHeader, minor)
	if cursor := t.cursor.Load(); cursor != nil {
		request.Header.Set(v1.CursorHeader, *cursor)
	}
	return nil
}

// Addresses are where the broker is looked for.
func (t *Transport) Addresses() []string { return t.urls }

// Close ends calls under way and gives connections back. Later calls fail.
func (t *Transport) Close() error {
	t.close()
	t.carrier.Close()
	return nil
}

// Ping says who the broker is.
func (t *Transport) Ping(ctx context.Context) (*v1.Pong, error) {
	return call[v1.Pong](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.Ping(ctx)
	})
}

// PublishAdvertisement says what this cluster offers.
func (t *Transport) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	return call[v1.AdvertisementReceipt](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.PublishAdvertisement(ctx, *adv)
	})
}

// RequestReservation asks for capacity.
func (t *Transport) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	params := &v1.RequestReservationParams{IdempotencyKey: key}
	return call[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RequestReservation(ctx, params, *req)
	})
}

// RequestQuote asks without taking.
func (t *Transport) RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	params := &v1.RequestQuoteParams{IdempotencyKey: key}
	return call[v1.Quote](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RequestQuote(ctx, params, *req)
	})
}

// ReleaseQuote gives back what is held.
func (t *Transport) ReleaseQuote(ctx context.Context, nameOrKey string) error {
	_, err := call[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReleaseQuote(ctx, nameOrKey)
	})
	return err
}

// ReleaseReservation ends a reservation; nil, nil where there was none.
func (t *Transport) ReleaseReservation(ctx context.Context, nameOrKey string) (*v1.Reservation, error) {
	return call[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReleaseReservation(ctx, nameOrKey)
	})
}

// ChangeReservation changes how long a reservation is held.
func (t *Transport) ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	return call[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ChangeReservation(ctx, key, *change)
	})
}

// ReportStatus tells how far this cluster is with a placement.
func (t *Transport) ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error {
	_, err := call[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReportStatus(ctx, reservation, *report)
	})
	return err
}

// FetchInstructions waits up to wait, rounded up to seconds and at most 60 s.
func (t *Transport) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	params := &v1.FetchInstructionsParams{Wait: waitSeconds(wait), After: cursor}
	list, err := call[v1.InstructionList](ctx, t, callTimeout+wait, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.FetchInstructions(ctx, params)
	})
	if err == nil {
		t.cursor.Store(&list.Cursor)
	}
	return list, err
}

// AnnounceHoldings says what this cluster has.
func (t *Transport) AnnounceHoldings(ctx context.Context, h *v1.Holdings) error {
	_, err := call[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.AnnounceHoldings(ctx, *h)
	})
	return err
}

// SendMessage passes an envelope on.
func (t *Transport) SendMessage(ctx context.Context, msg *v1.Message) error {
	_, err := call[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.SendMessage(ctx, *msg)
	})
	return err
}

// ReceiveMessages waits as FetchInstructions does.
func (t *Transport) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	params := &v1.ReceiveMessagesParams{Wait: waitSeconds(wait), After: cursor}
	return call[v1.MessageList](ctx, t, callTimeout+wait, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReceiveMessages(ctx, params)
	})
}

// RenewCertificate gets a new certificate with the one in use.
func (t *Transport) RenewCertificate(ctx context.Context, request *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	return call[v1.IssuedCertificate](ctx, t, issueTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RenewCertificate(ctx, *request)
	})
}

// waitSeconds rounds up: a wait below a second must not become a poll that never
// waits.
func waitSeconds(wait time.Duration) int {
	wait = min(max(wait, 0), maxWait)
	return int((wait + time.Second - 1) / time.Second)
}

// call sends one request and reads its answer. It returns nil for an answer
// without content.
func call[T any](ctx context.Context, t *Transport, timeout time.Duration,
	send func(context.Context) (*nethttp.Response, error)) (*T, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(t.closed, cancel)()
	if t.closed.Err() != nil {
		return nil, t.failure(ctx, t.closed.Err(), timeout)
	}
	response, err := send(bounded) //nolint:bodyclose // read closes it
	if err != nil {
		return nil, t.failure(ctx, err, timeout)
	}
	answer, err := read[T](response)
	if bounded.Err() != nil && err != nil {
		return nil, t.failure(ctx, err, timeout)
	}
	return answer, err
}

// failure explains a call without an answer. A caller that gave up hears that, and
// nothing about the broker.
func (t *Transport) failure(ctx context.Context, err error, timeout time.Duration) error {
	if t.closed.Err() != nil {
		return fmt.Errorf("broker transport is closed: %w", net.ErrClosed)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("call to the broker was given up: %w", ctx.Err())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer from %q within %s: %w", transport.ErrUnreachable, t.urls, timeout, err)
	}
	if untrusted(err) {
		return fmt.Errorf("%w: %w: %w", transport.ErrUnreachable, transport.ErrUntrusted, withoutURL(err))
	}
	return fmt.Errorf("%w: %w", transport.ErrUnreachable, withoutURL(err))
}
