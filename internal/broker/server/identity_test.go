package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestConnectionsWithoutAValidCertificateAreRefused(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	now := s.clock.Now()
	foreign := pkitest.New(t, "test", now)
	expired, early := clientTemplate("rome"), clientTemplate("rome")
	expired.NotBefore, expired.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour)
	early.NotBefore = now.Add(time.Hour)

	cases := map[string]*http.Client{
		"no certificate":                  s.clientWith(t),
		"certificate of another CA":       s.clientWith(t, pkitest.Parse(t)(foreign.IssueClient("rome", ""))),
		"certificate of the server's CA":  s.clientWith(t, pkitest.Parse(t)(s.serverCA.IssueClient("rome", ""))),
		"certificate of a server":         s.clientWith(t, pkitest.Parse(t)(s.agentsCA.IssueServer([]string{"rome"}, nil))),
		"expired certificate":             s.clientWith(t, pkitest.Parse(t)(s.agentsCA.Issue(expired))),
		"certificate of tomorrow":         s.clientWith(t, pkitest.Parse(t)(s.agentsCA.Issue(early))),
		"TLS 1.2 with a good certificate": s.client(t, "rome"),
	}
	cases["TLS 1.2 with a good certificate"].Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	for name, client := range cases {
		t.Run(name, func(t *testing.T) {
			// The alert may arrive too late to be read, so the kind of error does not matter.
			if r, err := s.try(t, client, http.MethodGet, "/api/v1/ping", ""); err == nil {
				t.Errorf("ping was answered with %s", r.Status)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		response, err := http.Get("http://" + s.address + "/api/v1/ping")
		if err != nil {
			return
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP got %s", response.Status)
		}
	})
	if n := len(s.broker.Calls(transporttest.Ping)); n != 0 {
		t.Errorf("%d calls reached the broker", n)
	}
	if r := s.send(t, s.client(t, "rome"), http.MethodGet, "/api/v1/ping", ""); r.StatusCode != http.StatusOK || r.ProtoMajor != 2 || r.TLS.Version != tls.VersionTLS13 {
		t.Errorf("good client got %s over %s, TLS %x", r.Status, r.Proto, r.TLS.Version)
	}
}

func TestCertificatesWithoutAClusterIDAreForbidden(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	foreignURI, twoNames := clientTemplate("rome"), clientTemplate("")
	foreignURI.URIs = []*url.URL{{Scheme: "spiffe", Host: "fluidos.eu", Path: "/cluster/paris"}}
	for _, name := range []string{"rome", "paris"} {
		twoNames.Subject.ExtraNames = append(twoNames.Subject.ExtraNames,
			pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: name})
	}
	for name, tc := range map[string]struct {
		template *x509.Certificate
		want     string
	}{
		"name in upper case":     {clientTemplate("Rome"), `"Rome" is not a cluster ID`},
		"no name":                {clientTemplate(""), "0 common names"},
		"two names":              {twoNames, "2 common names"},
		"URI of another cluster": {foreignURI, "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.clientWith(t, pkitest.Parse(t)(s.agentsCA.Issue(tc.template)))
			r := s.send(t, client, http.MethodGet, "/api/v1/ping", "")
			if r.StatusCode != http.StatusForbidden || !strings.Contains(r.problem.Detail, tc.want) {
				t.Errorf("got %s: %s; want 403 that says %q", r.Status, r.problem.Detail, tc.want)
			}
		})
	}
	if n := len(s.broker.Calls(transporttest.Ping)); n != 0 {
		t.Errorf("%d calls reached the broker", n)
	}
}

// TestCertificateIsCheckedAtEveryRequestOfAConnection repeats requests on one connection. Go
// verifies a client certificate only once per connection, and agents keep their connections for
// days.
func TestCertificateIsCheckedAtEveryRequestOfAConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, s *site)
		want   int
	}{
		"nothing changes":                     {func(*testing.T, *site) {}, http.StatusOK},
		"certificate is about to expire":      {func(_ *testing.T, s *site) { s.clock.SetTime(s.clock.Now().Add(59 * time.Minute)) }, http.StatusOK},
		"certificate expires":                 {func(_ *testing.T, s *site) { s.clock.SetTime(s.clock.Now().Add(61 * time.Minute)) }, http.StatusForbidden},
		"agents' CA is replaced by another":   {func(t *testing.T, s *site) { s.saveServer(t, pkitest.New(t, "test", s.clock.Now())) }, http.StatusForbidden},
		"files are replaced with the same CA": {func(t *testing.T, s *site) { s.saveServer(t, s.agentsCA) }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, transporttest.NewBroker())
			template := clientTemplate("rome")
			template.NotAfter = s.clock.Now().Add(time.Hour)
			// Every request uses this one connection.
			conn, err := tls.Dial("tcp", s.address, s.tlsConfig(pkitest.Parse(t)(s.agentsCA.Issue(template))))
			runtest.Check(t, err)
			client := overConnection(t, conn)
			if r := s.send(t, client, http.MethodGet, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
				t.Fatalf("first ping: %s: %s", r.Status, r.body)
			}
			tc.change(t, s)
			if r := s.send(t, client, http.MethodGet, "/api/v1/ping", ""); r.StatusCode != tc.want {
				t.Errorf("second ping: %s: %s; want %d", r.Status, r.body, tc.want)
			}
		})
	}
}

func TestSessionsAreNotResumed(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	config := s.tlsConfig(pkitest.Parse(t)(s.agentsCA.IssueClient("rome", "")))
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		conn, err := tls.Dial("tcp", s.address, config)
		runtest.Check(t, err)
		if r := s.send(t, overConnection(t, conn), http.MethodGet, "/api/v1/ping", ""); r.StatusCode != http.StatusOK || r.TLS.DidResume {
			t.Errorf("ping: %s, resumed %v", r.Status, r.TLS.DidResume)
		}
	}
}

func TestReplacedCertificateFilesAreLogged(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	ping := func() {
		t.Helper()
		s.later()
		if r := s.send(t, s.client(t, "rome"), http.MethodGet, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
			t.Fatalf("ping: %s", r.Status)
		}
	}
	pair, err := s.serverCA.IssueServer(nil, nil)
	runtest.Check(t, err)
	pair.CertPEM = []byte("broken")
	runtest.Check(t, pkitest.Save(s.certDir, pair, s.serverCA.CertPEM(), nil))
	ping()
	ping()
	if n := len(s.log.with("files cannot be used")); n != 1 {
		t.Errorf("broken files were logged %d times; want once", n)
	}
	s.saveServer(t, s.agentsCA)
	ping()
	if n := len(s.log.with("files are in use")); n != 1 {
		t.Errorf("mended files were logged %d times; want once", n)
	}
}
