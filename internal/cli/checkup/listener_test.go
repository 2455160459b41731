package checkup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestListener(t *testing.T) {
	now := time.Now()
	ours, other := pkitest.New(t, "servers", now), pkitest.New(t, "servers", now)
	named := func(names ...string) *x509.Certificate {
		return &x509.Certificate{
			Subject: pkix.Name{CommonName: "broker"}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(99 * time.Hour),
		}
	}
	asks := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool(), MinVersion: tls.VersionTLS13}
	asksNobody := &tls.Config{MinVersion: tls.VersionTLS13}
	tests := map[string]struct {
		authority *pkitest.Authority
		shows     *x509.Certificate
		config    *tls.Config
		now       time.Time
		level     Level
		says      string
	}{
		"a valid certificate":                                   {shows: named("localhost"), config: asks, level: OK, says: "accepts TLS connections; its certificate is valid until"},
		"a certificate of another CA":                           {authority: other, shows: named("localhost"), config: asks, level: Failed, says: "not signed by the trusted CA"},
		"a certificate for another name":                        {shows: named("elsewhere"), config: asks, level: Failed, says: "certificates.dnsNames"},
		"an expired certificate":                                {shows: named("localhost"), config: asks, now: now.Add(100 * time.Hour), level: Failed, says: "renew the certificate"},
		"a certificate that was not renewed":                    {shows: named("localhost"), config: asks, now: now.Add(90 * time.Hour), level: Warning, says: "for 9h0m0s"},
		"a listener that accepts callers without a certificate": {shows: named("localhost"), config: asksNobody, level: Failed, says: "without a certificate"},
		"a listener that speaks TLS 1.2 only":                   {shows: named("localhost"), config: &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}, level: Failed, says: "protocol version"},
	}
	roots := filepath.Join(t.TempDir(), "ca.crt")
	runtest.Check(t, os.WriteFile(roots, ours.CertPEM(), 0o600))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			authority, at := ours, now
			if test.authority != nil {
				authority = test.authority
			}
			if !test.now.IsZero() {
				at = test.now
			}
			listener := Listener{
				URL: "https://" + startListener(t, authority, test.shows, test.config), RootsFile: roots, Mutual: true,
				Now: func() time.Time { return at },
			}
			ctx := t.Context()
			if test.config == asksNobody { // the check waits for an alert that does not come
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
			}
			got := listener.Check("listener").Look(ctx)
			if got.Level != test.level || !strings.Contains(got.Message+got.Advice, test.says) {
				t.Errorf("got %+v, want %s and %q", got, test.level, test.says)
			}
		})
	}
}

func TestListenerAddress(t *testing.T) {
	for name, test := range map[string]struct {
		listener Listener
		level    Level
	}{
		"no address":           {Listener{}, Skipped},
		"an http address":      {Listener{URL: "http://localhost:1"}, Failed},
		"no port":              {Listener{URL: "https://localhost"}, Failed},
		"a missing roots file": {Listener{URL: "https://localhost:1", RootsFile: "/nowhere"}, Failed},
		"a dead address":       {Listener{URL: "https://localhost:1", Now: time.Now}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.listener.Check("listener").Look(t.Context()); got.Level != test.level {
				t.Errorf("got %+v, want %s", got, test.level)
			}
		})
	}
}

// startListener accepts TLS connections with the given certificate and returns its URL.
func startListener(t *testing.T, authority *pkitest.Authority, shows *x509.Certificate, config *tls.Config) string {
	t.Helper()
	pair, err := authority.Issue(shows)
	runtest.Check(t, err)
	certificate, err := pair.TLS()
	runtest.Check(t, err)
	config = config.Clone()
	config.Certificates = []tls.Certificate{certificate}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	runtest.Check(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // the test is over, so an error does not matter
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = conn.Read(make([]byte, 1)) }() // completes the handshake
		}
	}()
	return fmt.Sprintf("localhost:%d", listener.Addr().(*net.TCPAddr).Port)
}
