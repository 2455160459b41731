// Package reach finds out whether this cluster reaches the API servers of others, and
// how far away they are.
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

// dialTimeout is how long one try may take, from the name to the answer.
const dialTimeout = 5 * time.Second

// dialer opens a connection to an address that another cluster has advertised and waits
// for an answer in TLS. It sends no credentials and no request, and does not care for
// whom the certificate is: a server that shows one is there, and whoever peers with it
// checks it against the CA that came with the handshake.
//
// Whoever can advertise has it dial. So that nobody looks at this cluster's own machine
// or at a cloud's metadata with it, it keeps off addresses that mean another machine to
// everybody.
type dialer struct {
	rules Rules
	now   func() time.Time
}

func newDialer(own string, now func() time.Time) *dialer {
	return &dialer{rules: RulesFor(own), now: now}
}

// dial returns how long the connection took to open.
func (d *dialer) dial(ctx context.Context, endpoint string) (time.Duration, error) {
	address, name, err := addressOf(endpoint)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var began time.Time
	// Addresses of a name are tried one after the other: the last one tried is the one
	// that answered.
	network := net.Dialer{FallbackDelay: -1, Control: func(_, address string, _ syscall.RawConn) error {
		began = d.now()
		return d.check(address)
	}}
	connection, err := network.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, plain(err)
	}
	roundTrip := d.now().Sub(began)
	defer connection.Close() //nolint:errcheck // nothing was said on it
	err = tls.Client(connection, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	if !answered(err) {
		return 0, plain(err)
	}
	return max(roundTrip, 0), nil
}

// addressOf an endpoint, and the name by which to ask for it.
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

// check is asked with every address that a name has, right before it is dialled.
func (d *dialer) check(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return d.rules.CheckAddr(ap.Addr())
}

// answered reports whether something spoke TLS. A certificate that this machine does not trust
// is one, and so is a refusal to go on.
func answered(err error) bool {
	if err == nil {
		return true
	}
	if _, shown := errors.AsType[*tls.CertificateVerificationError](err); shown {
		return true
	}
	refused, ok := errors.AsType[*net.OpError](err)
	return ok && refused.Op == "remote error"
}

// plain leaves out addresses: whoever is told knows the endpoint.
func plain(err error) error {
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
		return errors.New("what answers does not speak TLS")
	}
	return err
}
