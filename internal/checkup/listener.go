package checkup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// Listener is a TLS listener to look at from outside.
type Listener struct {
	// URL is its https address.
	URL string
	// RootsFile has the CA certificates that its certificate is checked against, in PEM
	// form.
	RootsFile string
	// Mutual listeners must refuse callers without a certificate.
	Mutual bool
	// Now dates certificates.
	Now func() time.Time
}

// Check looks whether the listener answers, for how long its certificate is valid
// and whether it asks for one.
func (l Listener) Check(subject string) Check {
	return Check{subject, func(ctx context.Context) Finding {
		if l.URL == "" {
			return Skip("no address is given")
		}
		address, err := url.Parse(l.URL)
		if err != nil || address.Scheme != "https" || address.Port() == "" {
			return Fail("give https://HOST:PORT", "%q is no such address", l.URL)
		}
		roots, err := readRoots(l.RootsFile)
		if err != nil {
			return Fail("", "%v", err)
		}
		return l.look(ctx, address, roots)
	}}
}

func (l Listener) look(ctx context.Context, address *url.URL, roots *x509.CertPool) Finding {
	leaf, finding := l.dial(ctx, address.Host, address.Hostname(), roots)
	if leaf == nil {
		return finding
	}
	validity := Validity(leaf, l.Now())
	if validity.Level == OK {
		validity.Message = fmt.Sprintf("%s answers; certificate %s", l.URL, validity.Message)
	}
	return validity
}

// dial returns the listener's certificate, or what is wrong.
func (l Listener) dial(ctx context.Context, address, name string, roots *x509.CertPool) (*x509.Certificate, Finding) {
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: name, Time: l.Now}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, Fail(adviceOn(err), "%s: %v", address, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	state := conn.(*tls.Conn).ConnectionState()
	if l.Mutual && !refusesStrangers(ctx, conn) {
		return nil, Fail("somebody else listens there, or ends TLS before the broker: pass TCP through", "%s lets callers in without a certificate", address)
	}
	return state.PeerCertificates[0], Finding{}
}

// refusesStrangers: with TLS 1.3 the handshake is over for us before the other side
// has seen that we have no certificate; its refusal is the first thing we read.
func refusesStrangers(ctx context.Context, conn net.Conn) bool {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline) // the worst that can happen is to wait longer
	}
	_, err := conn.Read(make([]byte, 1))
	return err != nil && strings.Contains(err.Error(), "certificate required")
}

func adviceOn(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is not of the CA that is trusted here: is the CA being rotated, or does something else listen there?"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "add the name to the certificate: value certificates.dnsNames of the broker's chart"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "renew the certificate: kubectl describe certificate tells why cert-manager has not"
	}
	return "look at the pods behind the address and at NetworkPolicies between"
}

// Validity says how long a certificate is valid still. One that has less than a
// quarter of its life left should have been renewed: cert-manager does so after two
// thirds.
func Validity(leaf *x509.Certificate, now time.Time) Finding {
	left, whole := leaf.NotAfter.Sub(now), leaf.NotAfter.Sub(leaf.NotBefore)
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case left <= 0:
		return Fail("renew it; a replaced file is reread, no restart is needed", "expired on %s", until)
	case left < whole/4:
		return Warn("it should have been renewed by now: kubectl describe certificate, or the log of the agent", "is valid until %s, for %s", until, left.Round(time.Minute))
	}
	return Found("is valid until %s, for %s", until, left.Round(time.Minute))
}

func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the roots of the system
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%q holds no CA certificate in PEM form", file)
	}
	return roots, nil
}
