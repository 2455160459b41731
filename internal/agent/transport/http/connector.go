package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	nethttp "net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	dialTimeout     = 3 * time.Second
	idleConnTimeout = 90 * time.Second
	// maxConns is how many calls can be made at the same time, two polls among them; further calls
	// wait. The broker refuses a member with more than 64.
	maxConns = 18
)

// keepAlive closes a connection if the broker's machine has not answered for 25 s. Otherwise a poll
// would notice only at its end that the machine has vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 2}

var errCredentials = errors.New("no client certificate")

// connector sends requests to one of the broker's replicas, and to the next one after a failed
// attempt. It connects with the current certificate.
type connector struct {
	bases     []*url.URL
	userAgent string
	// current returns the current certificate, and tlsFor the TLS configuration for it.
	current func() (*pki.Credentials, error)
	tlsFor  func(*pki.Credentials) *tls.Config

	// mu protects the fields below.
	mu sync.Mutex
	// at is the index of the replica in use.
	at int
	// transport has the connections that were made with credentials.
	transport   *nethttp.Transport
	credentials *pki.Credentials
}

// RoundTrip sends a request to the replica in use, once.
func (c *connector) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	transport, at, err := c.transportNow()
	base := c.bases[at]
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // the body was not sent
		}
		return nil, fmt.Errorf("%s: %w: %w", base, errCredentials, err)
	}
	aimed := request.Clone(request.Context())
	aimed.URL.Scheme, aimed.URL.Host, aimed.Host = base.Scheme, base.Host, base.Host
	if c.userAgent != "" {
		aimed.Header.Set("User-Agent", c.userAgent)
	}
	response, err := transport.RoundTrip(aimed)
	if err != nil && !errors.Is(request.Context().Err(), context.Canceled) || err == nil && response.StatusCode >= nethttp.StatusBadGateway {
		c.switchReplica(at)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	return response, nil
}

// transportNow returns the transport for the current certificate, and the index of the replica in use.
func (c *connector) transportNow() (*nethttp.Transport, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	credentials, err := c.current()
	if err != nil {
		return nil, c.at, err
	}
	if c.transport == nil || credentials != c.credentials {
		c.closeIdle()
		c.credentials, c.transport = credentials, newTransport(c.tlsFor(credentials))
	}
	return c.transport, c.at, nil
}

// switchReplica does nothing if another request has already switched away from the replica with this index.
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
	c.closeIdle()
}

// closeIdle closes idle connections: requests in progress keep theirs. The caller must hold mu.
func (c *connector) closeIdle() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// newTransport returns a transport for HTTP/1.1. With HTTP/2, net/http may hide the alert with which
// the broker rejects a certificate, and a call without an answer leaves the others on a dead
// connection.
func newTransport(config *tls.Config) *nethttp.Transport {
	return &nethttp.Transport{
		Proxy:               nethttp.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleConnTimeout,
		MaxConnsPerHost:     maxConns,
		MaxIdleConnsPerHost: maxConns,
	}
}

// parseURLs accepts only https://host[:port]: the API's paths are fixed, and the broker only speaks TLS.
func parseURLs(flag string, texts []string) ([]*url.URL, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s is not set: want https://host[:port] of the broker", flag)
	}
	var urls []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: not a URL: want https://host[:port]", flag, text)
		}
		if problem := urlProblem(u); problem != "" {
			return nil, fmt.Errorf("%s %q: %s: want https://host[:port]", flag, u.Redacted(), problem)
		}
		u.Path = ""
		urls = append(urls, u)
	}
	return urls, nil
}

func urlProblem(u *url.URL) string {
	switch {
	case u.Scheme != "https":
		return fmt.Sprintf("scheme is %q", u.Scheme)
	case u.Hostname() == "":
		return "no host"
	case u.User != nil:
		return "user and password are not supported, the broker authenticates by certificate"
	case u.Path != "" && u.Path != "/":
		return fmt.Sprintf("path %q", u.Path)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "query or fragment"
	}
	return ""
}
