package http_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	stdlog "log"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// enrolmentStub serves TLS with a chain of certificates that the client does not know.
func enrolmentStub(t *testing.T, pair pki.KeyPair, more [][]byte, handler nethttp.HandlerFunc) (url string) {
	t.Helper()
	certificate, err := pair.TLS()
	runtest.Check(t, err)
	certificate.Certificate = append(certificate.Certificate, more...)
	stub := httptest.NewUnstartedServer(handler)
	stub.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	stub.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	stub.StartTLS()
	t.Cleanup(stub.Close)
	return stub.URL
}

func der(t *testing.T, certPEM []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	if block == nil {
		t.Fatal("no PEM")
	}
	return block.Bytes
}

func hashOf(t *testing.T, certPEM []byte) string {
	t.Helper()
	cert, err := x509.ParseCertificate(der(t, certPEM))
	runtest.Check(t, err)
	return pki.KeyHash(cert)
}

func TestOnlyBrokerWithPinnedHashIsCalled(t *testing.T) {
	s, other := newSite(t), newSite(t)
	issue := func(ca *pkitest.Authority, ip net.IP, template x509.Certificate) pki.KeyPair {
		t.Helper()
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.IPAddresses = []net.IP{ip}
		pair, err := ca.Issue(&template)
		runtest.Check(t, err)
		return pair
	}
	local := net.IPv4(127, 0, 0, 1)
	good := issue(s.serverCA, local, x509.Certificate{})
	root, otherRoot := s.serverCA.CertPEM(), other.serverCA.CertPEM()
	client, err := s.serverCA.IssueClient("rome", "")
	runtest.Check(t, err)
	for name, tc := range map[string]struct {
		pair   pki.KeyPair
		chain  [][]byte
		hashes []string
		says   string
	}{
		"the CA of the hash":                     {good, [][]byte{der(t, root)}, []string{hashOf(t, root)}, ""},
		"one of two CAs, while one is replaced":  {good, [][]byte{der(t, otherRoot), der(t, root)}, []string{hashOf(t, otherRoot), hashOf(t, root)}, ""},
		"a chain without the CA":                 {good, nil, []string{hashOf(t, root)}, "--enrolment-ca-hash"},
		"another CA":                             {issue(other.serverCA, local, x509.Certificate{}), [][]byte{der(t, otherRoot)}, []string{hashOf(t, root)}, hashOf(t, otherRoot)},
		"the CA beside a chain of another":       {issue(other.serverCA, local, x509.Certificate{}), [][]byte{der(t, otherRoot), der(t, root)}, []string{hashOf(t, root)}, "unknown authority"},
		"a certificate that is not a CA's":       {good, [][]byte{der(t, client.CertPEM)}, []string{hashOf(t, client.CertPEM)}, "--enrolment-ca-hash"},
		"the server's own key in place of a CA":  {good, [][]byte{der(t, root)}, []string{hashOf(t, good.CertPEM)}, "--enrolment-ca-hash"},
		"the certificate of another server":      {issue(s.serverCA, net.IPv4(127, 0, 0, 2), x509.Certificate{}), [][]byte{der(t, root)}, []string{hashOf(t, root)}, "127.0.0.2"},
		"an expired certificate of the right CA": {issue(s.serverCA, local, x509.Certificate{NotAfter: time.Now().Add(-time.Minute)}), [][]byte{der(t, root)}, []string{hashOf(t, root)}, "expired"},
		"an agent's certificate of the right CA": {client, [][]byte{der(t, root)}, []string{hashOf(t, root)}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			url := enrolmentStub(t, tc.pair, tc.chain, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				asked = true
				_, _ = io.WriteString(w, `{"trustDomain":"fluidos.eu"}`) // the test checks what arrives
			})
			e, err := http.NewEnroller(http.EnrollerOptions{URL: url, CAHashes: tc.hashes, Now: time.Now})
			runtest.Check(t, err)
			rules, err := e.Rules(t.Context())
			if asked != (tc.says == "") {
				t.Errorf("asked: %v", asked)
			}
			if tc.says == "" {
				if err != nil || rules.TrustDomain != "fluidos.eu" {
					t.Errorf("rules %+v, %v", rules, err)
				}
				return
			}
			if !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), url) {
				t.Errorf("error %v; want it to name %s and say %q", err, url, tc.says)
			}
		})
	}
}

func TestEnrolmentAnswers(t *testing.T) {
	s := newSite(t)
	pair, err := s.serverCA.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, err)
	var answer func(w nethttp.ResponseWriter)
	url := enrolmentStub(t, pair, [][]byte{der(t, s.serverCA.CertPEM())}, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"clusterID":"rome","csr":"x","token":"t"}` {
			t.Errorf("body %s, %v", body, err)
		}
		answer(w)
	})
	e, err := http.NewEnroller(http.EnrollerOptions{URL: url, CAHashes: []string{hashOf(t, s.serverCA.CertPEM())}, Now: time.Now})
	runtest.Check(t, err)
	request := &v1.EnrolmentRequest{ClusterID: "rome", Csr: "x", Token: "t"}
	write := func(status int, body string, header ...string) func(nethttp.ResponseWriter) {
		return func(w nethttp.ResponseWriter) {
			for pair := range slices.Chunk(header, 2) {
				w.Header().Set(pair[0], pair[1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the test checks what arrives
		}
	}

	answer = write(200, `{"certificate":"c","ca":"s","agentsCA":"a","brokerURLs":["https://b"]}`)
	if issued, approval, err := e.Enrol(t.Context(), request); err != nil || approval != nil || issued.Certificate != "c" || issued.AgentsCA != "a" {
		t.Errorf("issued %+v, approval %v, %v", issued, approval, err)
	}
	answer = write(202, `{"clusterID":"rome","keyFingerprint":"sha256:1","message":"approve it"}`, "Retry-After", "30")
	if issued, approval, err := e.Enrol(t.Context(), request); err != nil || issued != nil || approval.Message != "approve it" || approval.RetryAfter != 30*time.Second {
		t.Errorf("issued %v, approval %+v, %v", issued, approval, err)
	}
	answer = write(403, `{"reason":"TokenExpired","detail":"too old"}`, "Content-Type", "application/problem+json")
	if _, _, err := e.Enrol(t.Context(), request); fault.ReasonOf(err) != fault.TokenExpired || !strings.Contains(err.Error(), "too old") {
		t.Errorf("error %v, want that of the token", err)
	}
	answer = write(200, "<html>")
	if _, _, err := e.Enrol(t.Context(), request); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("error %v, want that something else answered", err)
	}
}

func TestEnrollerRequiresHashAndAddress(t *testing.T) {
	hash := "sha256:" + strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		url    string
		hashes []string
		want   string
	}{
		"good":             {"https://broker:8444", []string{hash}, ""},
		"no address":       {"", []string{hash}, "--enrolment-url"},
		"no https":         {"http://broker:8444", []string{hash}, "--enrolment-url"},
		"no hash":          {"https://broker:8444", nil, "--enrolment-ca-hash"},
		"hash of nothing":  {"https://broker:8444", []string{"sha256:"}, "--enrolment-ca-hash"},
		"one hash is none": {"https://broker:8444", []string{hash, "md5:1"}, "md5:1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := http.NewEnroller(http.EnrollerOptions{URL: tc.url, CAHashes: tc.hashes, Now: time.Now})
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that says %q", err, tc.want)
			}
		})
	}
}
