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

// Listener is a TLS endpoint that a check connects to as a client.
type Listener struct {
	// URL is the endpoint's https address.
	URL string
	// RootsFile is a PEM file with the CA certificates with which the endpoint's certificate is
	// verified. If it is empty, the CA certificates of the system are used.
	RootsFile string
	// Mutual is true if the endpoint must refuse callers without a certificate.
	Mutual bool
	// Now returns the present time, at which certificates must be valid.
	Now func() time.Time
}

// Check returns a check of the endpoint: it answers, its certificate stays valid for long enough,
// and, if Mutual is set, it refuses callers without a certificate.
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
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: address.Hostname(), Time: l.Now}}
	conn, err := dialer.DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return Fail(adviceFor(err), "%s: %v", address.Host, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent, so an error does not matter
	state := conn.(*tls.Conn).ConnectionState()
	if l.Mutual && !refusesStrangers(ctx, conn) {
		return Fail("another program listens there, or a proxy terminates TLS in front of the broker: pass TCP through", "%s lets callers in without a certificate", address.Host)
	}
	return l.judgeValidity(state.PeerCertificates[0])
}

// refusesStrangers reports whether the server refuses this client, which has no certificate. In TLS
// 1.3, the client's handshake succeeds before the server notices that the certificate is missing.
// Therefore the client learns of the refusal only when it reads.
func refusesStrangers(ctx context.Context, conn net.Conn) bool {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline) // at worst the read waits longer
	}
	_, err := conn.Read(make([]byte, 1))
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(err.Error(), "certificate required")
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

// judgeValidity reports how long the endpoint's certificate stays valid. It warns if less than a
// quarter of the certificate's lifetime is left, because the certificate should have been renewed
// after two thirds of the lifetime.
func (l Listener) judgeValidity(leaf *x509.Certificate) Finding {
	left, whole := leaf.NotAfter.Sub(l.Now()), leaf.NotAfter.Sub(leaf.NotBefore)
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	if left < whole/4 {
		return Warn("it should have been renewed by now: see kubectl describe certificate", "is valid until %s, for %s", until, left.Round(time.Minute))
	}
	return Found("%s accepts TLS connections; its certificate is valid until %s, for %s", l.URL, until, left.Round(time.Minute))
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
