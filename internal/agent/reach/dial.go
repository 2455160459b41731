// Package reach probes whether this cluster reaches the API servers of other clusters, and
// measures the round trip to them.
package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// dialTimeout bounds one probe, from name resolution to the TLS answer.
const dialTimeout = 5 * time.Second

// dialer connects to an address that another cluster has advertised and waits for a TLS answer.
// It sends no credentials and no request, and accepts any certificate. A server with a
// certificate is reachable; peering verifies it against the CA from the handshake.
//
// Any cluster that can advertise chooses the addresses that are dialled. The dialer therefore
// refuses addresses that would let another cluster probe this machine or a cloud's metadata
// service.
type dialer struct {
	rules Rules
	now   func() time.Time
}

func newDialer(own string, now func() time.Time) *dialer {
	return &dialer{rules: RulesFor(own), now: now}
}

// dialEndpoint returns how long it took to open the connection.
func (d *dialer) dialEndpoint(ctx context.Context, endpoint string) (time.Duration, error) {
	address, name, err := addressOf(endpoint)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var began time.Time
	// The addresses of a name are tried one after the other, so the last one tried is the one
	// that answered.
	network := net.Dialer{FallbackDelay: -1, Control: func(_, address string, _ syscall.RawConn) error {
		began = d.now()
		return d.checkAddress(address)
	}}
	connection, err := network.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, withoutAddresses(err)
	}
	roundTrip := d.now().Sub(began)
	defer connection.Close() //nolint:errcheck // nothing was said on it
	err = tls.Client(connection, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	if !hasAnswered(err) {
		return 0, withoutAddresses(err)
	}
	return max(roundTrip, 0), nil
}

// addressOf returns the address to dial and the server name to send.
func addressOf(endpoint string) (address, name string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", "", errors.New("not an https address")
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), u.Hostname(), nil
}

// checkAddress runs for every address of a name, immediately before it is dialled.
func (d *dialer) checkAddress(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return d.rules.CheckAddr(ap.Addr())
}

// hasAnswered reports whether the server spoke TLS. An untrusted certificate counts as an answer,
// and so does a TLS alert.
func hasAnswered(err error) bool {
	if err == nil {
		return true
	}
	if _, shown := errors.AsType[*tls.CertificateVerificationError](err); shown {
		return true
	}
	refused, ok := errors.AsType[*net.OpError](err)
	return ok && refused.Op == "remote error"
}

// withoutAddresses removes addresses from an error, because its reader knows the endpoint.
func withoutAddresses(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", dialTimeout)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return fmt.Errorf("no answer within %s", dialTimeout)
		}
		return op.Err
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the server does not speak TLS")
	}
	return err
}
