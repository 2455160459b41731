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

// Listener is a TLS endpoint to check from outside.
type Listener struct {
	// URL is the endpoint's https address.
	URL string
	// RootsFile holds the CA certificates to verify the endpoint with, in PEM form. If empty, the
	// system's roots are used.
	RootsFile string
	// Mutual endpoints must refuse callers without a certificate.
	Mutual bool
	// Now is the time that certificates are checked against.
	Now func() time.Time
}

// Check checks that the endpoint answers, that its certificate stays valid, and that it demands
// a client certificate if Mutual is set.
func (l Listener) Check(subject string) Check {
	return Check{subject, func(ctx context.Context) Finding {
		if l.URL == "" {
			return Skip("no address is given")
		}
		address, err := url.Parse(l.URL)
		if err != nil || address.Scheme != "https" || address.Port() == "" {
			return Fail("give https://HOST:PORT", "%q is not an https address with a port", l.URL)
		}
		roots, err := readRoots(l.RootsFile)
		if err != nil {
			return Fail("", "%v", err)
		}
		return l.checkCertificate(ctx, address, roots)
	}}
}

func (l Listener) checkCertificate(ctx context.Context, address *url.URL, roots *x509.CertPool) Finding {
	leaf, finding := l.fetchCertificate(ctx, address.Host, address.Hostname(), roots)
	if leaf == nil {
		return finding
	}
	validity := Validity(leaf, l.Now())
	if validity.Level == OK {
		validity.Message = fmt.Sprintf("%s accepts TLS connections; its certificate %s", l.URL, validity.Message)
	}
	return validity
}

// fetchCertificate returns the endpoint's certificate, or a finding that says why there is none.
func (l Listener) fetchCertificate(ctx context.Context, address, name string, roots *x509.CertPool) (*x509.Certificate, Finding) {
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: name, Time: l.Now}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, Fail(adviceFor(err), "%s: %v", address, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	state := conn.(*tls.Conn).ConnectionState()
	if l.Mutual && !refusesStrangers(ctx, conn) {
		return nil, Fail("another program listens there, or a proxy terminates TLS in front of the broker: pass TCP through", "%s lets callers in without a certificate", address)
	}
	return state.PeerCertificates[0], Finding{}
}

// refusesStrangers reports whether the server demands a client certificate. In TLS 1.3 the
// client finishes its handshake before the server has seen that a certificate is missing, so
// the refusal is the first thing read.
func refusesStrangers(ctx context.Context, conn net.Conn) bool {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline) // at worst the read waits longer
	}
	_, err := conn.Read(make([]byte, 1))
	return err != nil && strings.Contains(err.Error(), "certificate required")
}

func adviceFor(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is not signed by the trusted CA: is the CA being rotated, or does another program listen there?"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "add the name to the certificate: value certificates.dnsNames of the broker's chart"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "renew the certificate: kubectl describe certificate shows why cert-manager did not"
	}
	return "check the pods behind the address and the NetworkPolicies in between"
}

// Validity reports how long a certificate stays valid. It warns in the last quarter of its
// lifetime: cert-manager renews after two thirds.
func Validity(leaf *x509.Certificate, now time.Time) Finding {
	left, whole := leaf.NotAfter.Sub(now), leaf.NotAfter.Sub(leaf.NotBefore)
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case left <= 0:
		return Fail("renew it; a replaced file is reread, no restart is needed", "expired on %s", until)
	case left < whole/4:
		return Warn("it should have been renewed by now: see kubectl describe certificate, or the agent's log", "is valid until %s, for %s", until, left.Round(time.Minute))
	}
	return Found("is valid until %s, for %s", until, left.Round(time.Minute))
}

func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's roots
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
