package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	dialTimeout = 3 * time.Second
	// pingAfter and pingTimeout detect a broker that vanished while a poll waits.
	pingAfter       = 15 * time.Second
	pingTimeout     = 10 * time.Second
	idleConnTimeout = 90 * time.Second
	// maxCallConns bounds concurrent calls; further ones wait.
	maxCallConns = 16
)

// minor is this build's API version, as sent to the broker.
var minor = strconv.Itoa(v1.Minor)

var errCredentials = errors.New("no client certificate")

// connector sends requests to the replica that answered last, over connections made with the
// current certificate.
type connector struct {
	bases     []*url.URL
	files     *pki.Files
	userAgent string

	// mu guards the following.
	mu sync.Mutex
	// at is the index of the replica in use.
	at          int
	credentials *pki.Credentials
	conns       conns
}

// conns are the connections made with one certificate. Polls share one HTTP/2 connection, whose
// pings detect a vanished broker. Calls use HTTP/1.1, which involves half as many goroutines on
// both sides, saves a fifth of a millisecond per call, and takes less CPU.
type conns struct{ calls, polls *nethttp.Transport }

func (c conns) forRequest(request *nethttp.Request) *nethttp.Transport {
	if isPoll(request) {
		return c.polls
	}
	return c.calls
}

func (c conns) closeIdle() {
	for _, transport := range []*nethttp.Transport{c.calls, c.polls} {
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}
}

// isPoll reports whether a request waits for news.
func isPoll(request *nethttp.Request) bool { return request.URL.Query().Has("wait") }

// RoundTrip is one attempt.
func (c *connector) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	connected, at, err := c.connectionsNow()
	base := c.bases[at]
	if err != nil {
		closeBody(request)
		return nil, fmt.Errorf("%s: %w: %w", base, errCredentials, err)
	}
	aimed := request.Clone(request.Context())
	aimed.URL.Scheme, aimed.URL.Host, aimed.Host = base.Scheme, base.Host, base.Host
	if c.userAgent != "" {
		aimed.Header.Set("User-Agent", c.userAgent)
	}
	response, err := connected.forRequest(aimed).RoundTrip(aimed)
	if err != nil {
		if !errors.Is(request.Context().Err(), context.Canceled) {
			c.switchReplica(at)
		}
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if response.StatusCode >= nethttp.StatusBadGateway {
		c.switchReplica(at)
	}
	return response, nil
}

// connectionsNow returns connections for the current credentials.
func (c *connector) connectionsNow() (conns, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	credentials, err := c.files.Current()
	if err != nil {
		return conns{}, c.at, err
	}
	if credentials != c.credentials {
		// Requests in flight keep their connections until they end.
		c.conns.closeIdle()
		c.credentials = credentials
		// A transport modifies the configuration that it gets.
		c.conns = conns{calls: newTransport(c.files.ClientTLS(credentials)), polls: newTransport(c.files.ClientTLS(credentials))}
		c.conns.polls.ForceAttemptHTTP2 = true
	}
	return c.conns, c.at, nil
}

// switchReplica turns to the next replica, unless another request already did.
func (c *connector) switchReplica(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == at {
		c.at = (at + 1) % len(c.bases)
	}
}

// Close closes idle connections.
func (c *connector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns.closeIdle()
}

func closeBody(request *nethttp.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // nothing was read from it
	}
}

// newTransport speaks HTTP/1.1 unless ForceAttemptHTTP2 is set.
func newTransport(config *tls.Config) *nethttp.Transport {
	return &nethttp.Transport{
		Proxy:               nethttp.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleConnTimeout,
		MaxConnsPerHost:     maxCallConns,
		MaxIdleConnsPerHost: maxCallConns,
		HTTP2:               &nethttp.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}
