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
	// If a connection has no traffic for pingAfter, a ping is sent; without an answer within
	// pingTimeout the connection is closed. This is how an agent notices during a poll that the broker
	// has vanished.
	pingAfter       = 15 * time.Second
	pingTimeout     = 10 * time.Second
	idleConnTimeout = 90 * time.Second
	// maxCallConns is how many calls can be made at the same time; further calls wait.
	maxCallConns = 16
)

// minor is the minor version of the API that this agent was built with. It is sent with every
// request.
var minor = strconv.Itoa(v1.Minor)

var errCredentials = errors.New("no client certificate")

// connector sends requests to one of the broker's replicas, and to the next one after a failed
// attempt. It connects with the current certificate.
type connector struct {
	bases     []*url.URL
	files     *pki.Files
	userAgent string

	// mu protects the fields below.
	mu sync.Mutex
	// at is the index of the replica in use.
	at          int
	credentials *pki.Credentials
	conns       conns
}

// conns are the connections that were made with one certificate. Polls share one HTTP/2 connection,
// whose pings show when the broker has vanished. Other calls use HTTP/1.1, which needs half as many
// goroutines on both sides, less CPU, and 0.2 ms less per call.
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

// isPoll reports whether the broker may delay its answer to a request until it has news.
func isPoll(request *nethttp.Request) bool { return request.URL.Query().Has("wait") }

// RoundTrip sends a request to the replica in use, once.
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

// connectionsNow returns the connections for the current certificate, and the index of the replica
// in use.
func (c *connector) connectionsNow() (conns, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	credentials, err := c.files.Current()
	if err != nil {
		return conns{}, c.at, err
	}
	if credentials != c.credentials {
		// This closes only idle connections: requests in progress keep theirs.
		c.conns.closeIdle()
		c.credentials = credentials
		// Each transport gets its own copy of the TLS configuration, because a transport modifies its
		// configuration.
		c.conns = conns{calls: newTransport(c.files.ClientTLS(credentials)), polls: newTransport(c.files.ClientTLS(credentials))}
		c.conns.polls.ForceAttemptHTTP2 = true
	}
	return c.conns, c.at, nil
}

// switchReplica switches to the replica after the one whose index is in the parameter at. It does
// nothing if another request has already switched away from it.
func (c *connector) switchReplica(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == at {
		c.at = (at + 1) % len(c.bases)
	}
}

// Close closes the idle connections.
func (c *connector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns.closeIdle()
}

func closeBody(request *nethttp.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // the body was not sent
	}
}

// newTransport returns an HTTP transport. It uses HTTP/1.1, unless the caller sets
// ForceAttemptHTTP2.
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
