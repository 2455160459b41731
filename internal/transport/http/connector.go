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
	// pingAfter and pingTimeout find out about a broker that vanished without a word
	// while a poll waits.
	pingAfter       = 15 * time.Second
	pingTimeout     = 10 * time.Second
	idleConnTimeout = 90 * time.Second
)

// minor is this build's, as callers show it.
var minor = strconv.Itoa(v1.Minor)

var errCredentials = errors.New("no certificate to show")

// connector sends a request to the replica that answered last, over connections
// made with the certificate of the hour.
type connector struct {
	bases     []*url.URL
	files     *pki.Files
	userAgent string

	// mu guards the following.
	mu sync.Mutex
	// at is the index of the replica to ask.
	at          int
	credentials *pki.Credentials
	transport   *nethttp.Transport
}

// RoundTrip is one attempt.
func (c *connector) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	transport, at, err := c.connect()
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
	response, err := transport.RoundTrip(aimed)
	if err != nil {
		if !errors.Is(request.Context().Err(), context.Canceled) {
			c.leave(at)
		}
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if response.StatusCode >= nethttp.StatusBadGateway {
		c.leave(at)
	}
	return response, nil
}

// connect returns the transport for the credentials as they are now.
func (c *connector) connect() (*nethttp.Transport, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	credentials, err := c.files.Current()
	if err != nil {
		return nil, c.at, err
	}
	if credentials != c.credentials {
		if c.transport != nil {
			// Requests under way keep their connections until they end.
			c.transport.CloseIdleConnections()
		}
		c.credentials, c.transport = credentials, newTransport(c.files.ClientTLS(credentials))
	}
	return c.transport, c.at, nil
}

// leave turns to the next replica, unless another request did already.
func (c *connector) leave(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == at {
		c.at = (at + 1) % len(c.bases)
	}
}

// Close gives connections back.
func (c *connector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

func closeBody(request *nethttp.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // nothing was read of it
	}
}

func newTransport(config *tls.Config) *nethttp.Transport {
	return &nethttp.Transport{
		Proxy:               nethttp.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     idleConnTimeout,
		HTTP2:               &nethttp.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}
