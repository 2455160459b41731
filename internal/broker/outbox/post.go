package outbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// sendTimeout limits one attempt to deliver a message.
	sendTimeout = 15 * time.Second
	// maxAnswer is the number of bytes of an answer that are read.
	maxAnswer = 4 << 10
	// secretsKept is how long the content of a Secret is used before it is read again.
	secretsKept = time.Minute
)

// Keys in the Secrets of channels, besides notify.Channel.SecretKey.
const (
	keyUsername = "username"
	keyPassword = "password"
	// keyCA is the key of additional CA certificates with which the receiver's certificate is verified.
	keyCA = "ca.crt"
)

// post sends messages to receivers. It follows no redirects, uses no proxy and connects to no address
// that notify.CheckAddress refuses, except to loopback addresses if Options.Loopback is true. It is
// safe for concurrent use.
type post struct {
	opts *Options

	// mu guards the fields below.
	mu      sync.Mutex
	secrets map[string]*secret
}

// secret is the content of a Secret, with the TLS configuration and the client that are made from it.
type secret struct {
	data map[string][]byte
	read time.Time
	tls  *tls.Config
	http *http.Client
}

func newPost(opts *Options) *post { return &post{opts: opts, secrets: map[string]*secret{}} }

// sendEvents delivers events as one message. After an error the Secret is read again before the next attempt.
func (p *post) sendEvents(ctx context.Context, c *notify.Channel, journalID string, events []notify.Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	s, err := p.secretOf(ctx, c)
	if err == nil {
		err = p.sendWith(ctx, c, s, journalID, events)
	}
	if err != nil {
		p.forgetSecret(c.Secret)
	}
	return err
}

func (p *post) sendWith(ctx context.Context, c *notify.Channel, s *secret, journalID string, events []notify.Event) error {
	if c.URL != "" {
		return p.sendCloudEvent(ctx, c, s, journalID, &events[0])
	}
	m := notify.Compose(c.Name, journalID, events)
	if c.Slack {
		return p.sendSlack(ctx, c, s, &m)
	}
	return p.sendEmail(ctx, c.Email, s, &m)
}

// secretOf returns the content of the channel's Secret; it is empty for a channel without one.
func (p *post) secretOf(ctx context.Context, c *notify.Channel) (*secret, error) {
	p.mu.Lock()
	known := p.secrets[c.Secret]
	p.mu.Unlock()
	if known != nil && p.opts.Now().Sub(known.read) < secretsKept {
		return known, nil
	}
	s := &secret{read: p.opts.Now()}
	if c.Secret != "" {
		var err error
		if s.data, err = p.opts.Secret(ctx, c.Secret); err != nil {
			return nil, fmt.Errorf("reading Secret %q: %w", c.Secret, err)
		}
	}
	if known != nil && bytes.Equal(known.data[keyCA], s.data[keyCA]) {
		s.tls, s.http = known.tls, known.http // the CA certificates are unchanged: keep the client and its connections
	} else if err := p.prepareClient(s); err != nil {
		return nil, fmt.Errorf("using Secret %q: %w", c.Secret, err)
	}
	p.mu.Lock()
	p.secrets[c.Secret] = s
	p.mu.Unlock()
	return s, nil
}

// prepareClient sets the TLS configuration and the HTTP client for receivers that use this Secret.
func (p *post) prepareClient(s *secret) error {
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if pem := s.data[keyCA]; len(pem) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("key %s contains no certificate in PEM", keyCA)
		}
		s.tls.RootCAs = roots
	}
	s.http = &http.Client{
		Transport: &http.Transport{
			DialContext: p.dialAllowed, TLSClientConfig: s.tls, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// forgetSecret marks a Secret in the cache as outdated, so that the next attempt reads it again.
func (p *post) forgetSecret(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.secrets[name]; s != nil {
		old := *s
		old.read = time.Time{}
		p.secrets[name] = &old
	}
}

// dialAllowed connects to an address to which post may connect. The check uses the resolved address, so that a DNS
// change between check and connection has no effect.
func (p *post) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: sendTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if p.opts.Loopback && to.Addr().Unmap().IsLoopback() {
			return nil
		}
		return notify.CheckAddress(to.Addr())
	}}
	return dialer.DialContext(ctx, network, address)
}

func (p *post) sendCloudEvent(ctx context.Context, c *notify.Channel, s *secret, journalID string, e *notify.Event) error {
	keys, err := notify.ReadKeys(s.data[c.SecretKey])
	if err != nil {
		return fmt.Errorf("key %q of Secret %q: %w", c.SecretKey, c.Secret, err)
	}
	body, err := notify.Encode(e, journalID)
	if err != nil {
		return err
	}
	return p.postBody(ctx, s, c.URL, notify.ContentType, body, notify.Sign(keys, e.ID(journalID), p.opts.Now(), body))
}

func (p *post) sendSlack(ctx context.Context, c *notify.Channel, s *secret, m *notify.Message) error {
	address := strings.TrimSpace(string(s.data[c.SecretKey]))
	if notify.CheckURL(address) != nil { // its error would show the URL, which is a secret
		return fmt.Errorf("key %q of Secret %q must contain the https:// URL of an incoming webhook that other machines can reach", c.SecretKey, c.Secret)
	}
	body, err := m.Slack()
	if err != nil {
		return err
	}
	return hideURL(p.postBody(ctx, s, address, "application/json", body, nil), address)
}

// hideURL removes a secret URL from the text of an error. net/http writes the URL in its own spelling, in which it
// escapes characters, so hideURL drops what net/http adds.
func hideURL(err error, address string) error {
	if err == nil {
		return nil
	}
	if attempt, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("the incoming webhook: %w", attempt.Err)
	}
	return errors.New(strings.ReplaceAll(err.Error(), address, "the incoming webhook"))
}

func (p *post) postBody(ctx context.Context, s *secret, address, contentType string, body []byte, headers map[string]string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "liqo-resource-broker")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the text only explains the status in an error, so an incomplete one will do
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the receiver answered %s: %q", answer.Status, message.Clip(string(text), 200))
	}
	return nil
}
