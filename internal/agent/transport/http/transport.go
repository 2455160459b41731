// Package http sends an agent's calls to the broker's REST API over mTLS.
//
//	call ─▶ one of the broker's URLs, then the next one ─▶ TLS 1.3, trusting only ca.crt
//
// All calls are idempotent, so all can be retried. After a broken connection, or if a replica stops, one more attempt
// follows at once. Controllers and the outbox retry later. If no attempt succeeds, the error wraps
// transport.ErrUnreachable. If the broker refuses the call, the error is a *fault.Error.
package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"strconv"
	"sync/atomic"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	// callTimeout limits a call with both its attempts. Polls get this time in addition to the time for
	// which the broker may hold them.
	callTimeout = 10 * time.Second
	// maxRetryAfter is the longest Retry-After with which a stopping replica asks to try another one.
	// A broker that asks for a longer pause is not asked again.
	maxRetryAfter = 2 * time.Second
	// maxWait is the longest time for which the API allows a poll to be held.
	maxWait = 60 * time.Second
)

// Options of a Transport. URLs and Files are required.
type Options struct {
	// URLs of the broker's replicas, as https://host[:port]. After a failure, the next one is used.
	URLs []string
	// Files contain the agent's certificate and the broker's CA. After a change of the files, new
	// connections use them within a second; calls in progress finish with the old ones.
	Files *pki.Files
	// UserAgent identifies the agent and its version to the broker.
	UserAgent string
}

// Carrier sends requests to a broker. Each call of RoundTrip is one attempt. It must not change the
// path, query, headers and body of a request.
type Carrier interface {
	nethttp.RoundTripper
	// Close releases the carrier's resources.
	Close()
}

// sender sends requests with a Carrier. It follows no redirects, because the API has none:
// following one could show the certificate to another server.
type sender struct {
	Carrier
	// watch is called before each attempt, and the function that it returns after it.
	watch func(*nethttp.Request) (done func(*nethttp.Response, error))
}

// Do implements v1.HttpRequestDoer. It repeats an attempt once and at once if another replica may
// answer. Further retries, with pauses, are up to the caller.
func (s *sender) Do(request *nethttp.Request) (*nethttp.Response, error) {
	response, err := s.attempt(request)
	if request.Context().Err() != nil || !mayRepeat(response, err) {
		return response, err
	}
	if err == nil {
		_ = response.Body.Close() // the answer is not used
	}
	if request.GetBody != nil {
		if request.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
	}
	return s.attempt(request)
}

func (s *sender) attempt(request *nethttp.Request) (*nethttp.Response, error) {
	done := s.watch(request)
	response, err := s.RoundTrip(request)
	done(response, err)
	return response, err
}

func watchNothing(*nethttp.Request) func(*nethttp.Response, error) {
	return func(*nethttp.Response, error) {}
}

func mayRepeat(response *nethttp.Response, err error) bool {
	if err != nil {
		return !errors.Is(err, errCredentials) && !isUntrusted(err)
	}
	return response.StatusCode >= nethttp.StatusBadGateway && retryAfter(response) <= maxRetryAfter
}

// isUntrusted reports whether an error means that one side rejected the other's certificate.
func isUntrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	// net/http reports a TLS alert from the server in this form.
	return ok && op.Op == "remote error"
}

// Transport calls the broker's REST API. It is safe for concurrent use.
type Transport struct {
	api    *v1.Client
	sender *sender
	urls   []string
	// cursor is the cursor of the latest list of instructions. It is sent with every call: this is how
	// a broker that was restored from an older state learns that it has lost changes.
	cursor atomic.Pointer[string]
	// closed is cancelled by Close, which ends all calls.
	closed context.Context
	close  context.CancelFunc
}

var _ transport.Transport = (*Transport)(nil)

// New checks the options and returns a Transport. It does not connect.
func New(o Options) (*Transport, error) {
	bases, err := parseURLs("--broker-url", o.URLs)
	if err != nil {
		return nil, err
	}
	if o.Files == nil {
		return nil, errors.New("broker transport without certificates: set --broker-cert-path")
	}
	// urls[0] only serves to build requests. The connector replaces the address at every attempt.
	return Over(&connector{bases: bases, userAgent: o.UserAgent, current: o.Files.Current, tlsFor: o.Files.ClientTLS}, o.URLs...)
}

// Over returns a Transport that sends its requests with c. The requests contain urls[0] as their
// address. Error messages contain all urls.
func Over(c Carrier, urls ...string) (*Transport, error) {
	closed, closeNow := context.WithCancel(context.Background())
	t := &Transport{sender: &sender{Carrier: c, watch: watchNothing}, urls: urls, closed: closed, close: closeNow}
	var err error
	t.api, err = v1.NewClient(urls[0], v1.WithHTTPClient(t.sender), v1.WithRequestEditorFn(t.addHeaders))
	if err != nil {
		return nil, fmt.Errorf("address of the broker: %w", err)
	}
	return t, nil
}

// addHeaders adds the headers that every request has.
func (t *Transport) addHeaders(_ context.Context, request *nethttp.Request) error {
	request.Header.Set(v1.MinorHeader, strconv.Itoa(v1.Minor))
	if cursor := t.cursor.Load(); cursor != nil {
		request.Header.Set(v1.CursorHeader, *cursor)
	}
	return nil
}

// WatchAttempts sets a function that is called before each attempt of a call. The function that it
// returns is called after the attempt, with the outcome. Call WatchAttempts before the first call.
func (t *Transport) WatchAttempts(watch func(*nethttp.Request) (done func(*nethttp.Response, error))) {
	t.sender.watch = watch
}

// Addresses returns the broker's addresses.
func (t *Transport) Addresses() []string { return t.urls }

// Close ends all calls and closes idle connections. Later calls fail.
func (t *Transport) Close() error {
	t.close()
	t.sender.Close()
	return nil
}

// Ping implements transport.BrokerCommunicator.
func (t *Transport) Ping(ctx context.Context) (*v1.Pong, error) {
	return callBroker[v1.Pong](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.Ping(ctx)
	})
}

// PublishAdvertisement implements transport.BrokerCommunicator.
func (t *Transport) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	return callBroker[v1.AdvertisementReceipt](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.PublishAdvertisement(ctx, *adv)
	})
}

// RequestReservation implements transport.BrokerCommunicator.
func (t *Transport) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	params := &v1.RequestReservationParams{IdempotencyKey: key}
	return callBroker[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RequestReservation(ctx, params, *req)
	})
}

// ReleaseReservation implements transport.Releaser.
func (t *Transport) ReleaseReservation(ctx context.Context, nameOrKey, user string) (*v1.Reservation, error) {
	var params *v1.ReleaseReservationParams // nil, because an empty actor would be sent as a parameter
	if user != "" {
		params = &v1.ReleaseReservationParams{Actor: user}
	}
	return callBroker[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReleaseReservation(ctx, nameOrKey, params)
	})
}

// ChangeReservation implements transport.Changer.
func (t *Transport) ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	return callBroker[v1.Reservation](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ChangeReservation(ctx, key, *change)
	})
}

// RequestQuote implements transport.Quoter.
func (t *Transport) RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	var params *v1.RequestQuoteParams // nil, because an empty key would be sent as a header
	if key != "" {
		params = &v1.RequestQuoteParams{IdempotencyKey: key}
	}
	return callBroker[v1.Quote](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RequestQuote(ctx, params, *req)
	})
}

// ReleaseQuote implements transport.Quoter.
func (t *Transport) ReleaseQuote(ctx context.Context, nameOrKey string) error {
	_, err := callBroker[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReleaseQuote(ctx, nameOrKey)
	})
	return err
}

// ReportStatus implements transport.StatusReporter.
func (t *Transport) ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error {
	_, err := callBroker[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReportStatus(ctx, reservation, *report)
	})
	return err
}

// FetchInstructions implements transport.BrokerCommunicator. It rounds wait up to whole seconds,
// and limits it to maxWait.
func (t *Transport) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	params := &v1.FetchInstructionsParams{Wait: waitSeconds(wait), After: cursor}
	list, err := callBroker[v1.InstructionList](ctx, t, callTimeout+wait, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.FetchInstructions(ctx, params)
	})
	if err == nil {
		t.cursor.Store(&list.Cursor)
	}
	return list, err
}

// AnnounceHoldings implements transport.Announcer.
func (t *Transport) AnnounceHoldings(ctx context.Context, h *v1.Holdings) error {
	_, err := callBroker[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.AnnounceHoldings(ctx, *h)
	})
	return err
}

// SendMessage implements transport.Messenger.
func (t *Transport) SendMessage(ctx context.Context, msg *v1.Message) error {
	_, err := callBroker[struct{}](ctx, t, callTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.SendMessage(ctx, *msg)
	})
	return err
}

// ReceiveMessages implements transport.Messenger. It rounds wait up to whole seconds, and limits it
// to maxWait.
func (t *Transport) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	params := &v1.ReceiveMessagesParams{Wait: waitSeconds(wait), After: cursor}
	return callBroker[v1.MessageList](ctx, t, callTimeout+wait, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.ReceiveMessages(ctx, params)
	})
}

// RenewCertificate requests a new certificate, authenticated with the current one.
func (t *Transport) RenewCertificate(ctx context.Context, request *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	return callBroker[v1.IssuedCertificate](ctx, t, issueTimeout, func(ctx context.Context) (*nethttp.Response, error) {
		return t.api.RenewCertificate(ctx, *request)
	})
}

// waitSeconds rounds up, because a poll with 0 would not wait at all.
func waitSeconds(wait time.Duration) int {
	wait = min(max(wait, 0), maxWait)
	return int((wait + time.Second - 1) / time.Second)
}

// callBroker sends a request and decodes the response. It returns nil for a response without
// content.
func callBroker[T any](ctx context.Context, t *Transport, timeout time.Duration,
	send func(context.Context) (*nethttp.Response, error)) (*T, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(t.closed, cancel)()
	if t.closed.Err() != nil {
		return nil, t.explainError(ctx, t.closed.Err(), timeout)
	}
	response, err := send(bounded) //nolint:bodyclose // readAnswer closes it
	if err != nil {
		return nil, t.explainError(ctx, err, timeout)
	}
	answer, err := readAnswer[T](response)
	if bounded.Err() != nil && err != nil {
		return nil, t.explainError(ctx, err, timeout)
	}
	return answer, err
}

// explainError returns the error of a call that got no answer. It wraps ErrUnreachable unless the
// transport was closed or the caller cancelled the call, which says nothing about the broker.
func (t *Transport) explainError(ctx context.Context, err error, timeout time.Duration) error {
	if t.closed.Err() != nil {
		return fmt.Errorf("broker transport is closed: %w", net.ErrClosed)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("call to the broker was cancelled: %w", ctx.Err())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer from %q within %s: %w", transport.ErrUnreachable, t.urls, timeout, err)
	}
	if isUntrusted(err) {
		return fmt.Errorf("%w: %w: %w; %s", transport.ErrUnreachable, transport.ErrUntrusted, err, remedyForUntrusted(err))
	}
	return fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
}

// remedyForUntrusted says what to do if one side does not accept the other's certificate.
func remedyForUntrusted(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "call the broker by a name in its certificate, or add the name: certificates.dnsNames in the broker's chart"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "if the broker answers there, its CA is not the one in ca.crt of --broker-cert-path: replace that file, or enrol again"
	}
	return "the broker's agents-ca.crt holds another CA, or this cluster's certificate has expired: enrol again"
}
