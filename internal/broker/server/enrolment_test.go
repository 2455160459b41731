package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	enrolmentsPath   = "/api/v1/enrolments"
	certificatesPath = "/api/v1/certificates"
	goodEnrolment    = `{"clusterID":"rome","csr":"x","token":"t"}`
)

// issuer answers every request with its fields and records the renewed clusters.
type issuer struct {
	issued  *v1.IssuedCertificate
	pending *v1.EnrolmentPending
	err     error
	renewed []string
}

func (*issuer) Rules(context.Context) (*v1.EnrolmentRules, error) {
	return &v1.EnrolmentRules{TrustDomain: "fluidos.eu"}, nil
}

func (i *issuer) Enrol(context.Context, *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	return i.issued, i.pending, i.err
}

func (i *issuer) Renew(_ context.Context, clusterID string, _ *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	i.renewed = append(i.renewed, clusterID)
	return i.issued, i.err
}

// newEnrolmentSite runs an enrolment server until the test ends.
func newEnrolmentSite(t *testing.T, certificates Certificates) *site {
	t.Helper()
	s := prepareEnrolmentSite(t, certificates)
	runtest.Start(t, s)
	return s
}

// prepareEnrolmentSite returns a site that does not serve yet.
func prepareEnrolmentSite(t *testing.T, certificates Certificates) *site {
	t.Helper()
	now := time.Now()
	s := &site{certDir: t.TempDir(), log: newLines(), clock: clocktesting.NewFakePassiveClock(now)}
	s.agentsCA, s.serverCA = pkitest.New(t, "test", now), pkitest.New(t, "test", now)
	s.saveServer(t, s.agentsCA)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	s.address = listener.Addr().String()
	s.Server, err = NewEnrolment(Options{
		Listener: listener, CertDir: s.certDir, Certificates: certificates, Log: s.log.logger(), Clock: s.clock,
	})
	runtest.Check(t, err)
	return s
}

func TestEachListenerServesItsOwnOperations(t *testing.T) {
	agents := newSite(t, transporttest.NewBroker())
	strangers := newEnrolmentSite(t, &issuer{issued: &v1.IssuedCertificate{BrokerURLs: []string{}}})
	for operation, want := range agents.description.operations {
		method, path, _ := strings.Cut(operation, " ")
		path = strings.ReplaceAll(path, "{name}", "res-0123456789")
		for _, s := range []*site{agents, strangers} {
			request := httptest.NewRequest(method, path, nil)
			_, pattern := s.mux.Handler(request)
			if served, meant := pattern != "", (s == strangers) == want.enrolment; served != meant {
				t.Errorf("%s on the listener %q: served %v, want %v", operation, s.name, served, meant)
			}
		}
	}
	if got := agents.send(t, agents.client(t, "rome"), post, enrolmentsPath, goodEnrolment); got.StatusCode != http.StatusNotFound {
		t.Errorf("enrolment over mTLS: %s %s", got.Status, got.body)
	}
	stranger := strangers.clientWith(t)
	for _, path := range []string{"/api/v1/ping", certificatesPath} {
		if got := strangers.send(t, stranger, post, path, "{}"); got.StatusCode != http.StatusNotFound || !strings.Contains(got.problem.Detail, "this is the enrolment listener") {
			t.Errorf("%s without a certificate: %s %s", path, got.Status, got.body)
		}
	}
	if got := strangers.send(t, stranger, http.MethodGet, "/openapi.json", ""); got.StatusCode != http.StatusOK {
		t.Errorf("openapi.json: %s", got.Status)
	}
}

func TestEnrolmentAnswers(t *testing.T) {
	cases := map[string]struct {
		issuer     issuer
		body       string
		wantStatus int
		wantReason fault.Reason
		wantRetry  string
	}{
		"a certificate": {
			issuer: issuer{issued: &v1.IssuedCertificate{Certificate: "c", BrokerURLs: []string{}}}, wantStatus: http.StatusOK,
		},
		"a wait for approval says when to retry": {
			issuer: issuer{pending: &v1.EnrolmentPending{ClusterID: "rome"}}, wantStatus: http.StatusAccepted, wantRetry: "30",
		},
		"a refusal keeps its reason": {
			issuer: issuer{err: fault.New(fault.TokenExpired, "too old")}, wantStatus: http.StatusForbidden, wantReason: fault.TokenExpired,
		},
		"a late issuer means retry": {
			issuer: issuer{err: fault.New(fault.Unavailable, "not yet")}, wantStatus: http.StatusServiceUnavailable,
			wantReason: fault.Unavailable, wantRetry: "1",
		},
		"an unknown field is refused": {
			body: `{"clusterID":"rome","csr":"x","admin":true}`, wantStatus: http.StatusBadRequest, wantReason: fault.Invalid,
		},
		"a long token is refused": {
			body:       fmt.Sprintf(`{"clusterID":"rome","csr":"x","token":%q}`, strings.Repeat("t", 129)),
			wantStatus: http.StatusBadRequest, wantReason: fault.Invalid,
		},
		"a body above the limit is refused": {
			body:       fmt.Sprintf(`{"clusterID":"rome","csr":%q}`, strings.Repeat("t", enrolmentBody)),
			wantStatus: http.StatusRequestEntityTooLarge, wantReason: fault.Invalid,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newEnrolmentSite(t, &tc.issuer)
			if tc.body == "" {
				tc.body = goodEnrolment
			}
			got := s.send(t, s.clientWith(t), post, enrolmentsPath, tc.body)
			if got.StatusCode != tc.wantStatus || got.problem.Reason != string(tc.wantReason) || got.Header.Get("Retry-After") != tc.wantRetry {
				t.Errorf("got %s, reason %q, retry after %q: %s", got.Status, got.problem.Reason, got.Header.Get("Retry-After"), got.body)
			}
		})
	}
}

func TestEnrolmentRateIsLimitedPerAddress(t *testing.T) {
	s := newEnrolmentSite(t, &issuer{err: fault.New(fault.TokenInvalid, "no")})
	client := s.clientWith(t)
	last := reply{}
	for range enrolmentBurst + 1 {
		last = s.send(t, client, post, enrolmentsPath, goodEnrolment)
	}
	if last.StatusCode != http.StatusTooManyRequests || !strings.Contains(last.problem.Detail, `address "127.0.0.1"`) {
		t.Errorf("request %d: %s %s", enrolmentBurst+1, last.Status, last.body)
	}
}

// TestEnrolmentServerSendsItsCA checks that a client that knows only the hash of the CA's key can
// verify the chain.
func TestEnrolmentServerSendsItsCA(t *testing.T) {
	s := newEnrolmentSite(t, &issuer{})
	cas, err := pki.ParseBundle(s.serverCA.CertPEM())
	runtest.Check(t, err)
	pinned := pki.KeyHash(cas[0])
	conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the chain is checked below
	runtest.Check(t, err)
	defer func() { _ = conn.Close() }()
	chain := conn.ConnectionState().PeerCertificates
	roots := x509.NewCertPool()
	for _, c := range chain {
		if pki.KeyHash(c) == pinned {
			roots.AddCert(c)
		}
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("chain of %d certificates: %v", len(chain), err)
	}
	if version := conn.ConnectionState().Version; version != tls.VersionTLS13 {
		t.Errorf("TLS version %x, want 1.3", version)
	}
}

func TestOlderTLSIsRefusedForEnrolment(t *testing.T) {
	s := newEnrolmentSite(t, &issuer{})
	conn, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: s.serverCA.Pool(), MaxVersion: tls.VersionTLS12})
	if err == nil {
		_, err = io.ReadAll(conn)
		err = errors.Join(err, conn.Close())
	}
	if err == nil {
		t.Error("TLS 1.2 was accepted")
	}
}

func TestRenewalIsOnlyForTheCallersCluster(t *testing.T) {
	certificates := &issuer{issued: &v1.IssuedCertificate{Certificate: "c", BrokerURLs: []string{}}}
	s := newSite(t, transporttest.NewBroker())
	if got := s.send(t, s.client(t, "rome"), post, certificatesPath, `{"csr":"x"}`); got.problem.Reason != string(fault.NotFound) {
		t.Errorf("without an issuer: %s %s", got.Status, got.body)
	}
	s = newSite(t, transporttest.NewBroker(), func(s *Server) {
		s.registerRoutes(operations{broker: transporttest.NewBroker(), certificates: certificates, renewals: newLimits(renewalRate, renewalBurst), clock: s.opts.Clock, draining: t.Context()}, func(operation) bool { return true })
	})
	if got := s.send(t, s.client(t, "paris"), post, certificatesPath, `{"csr":"x"}`); got.StatusCode != http.StatusOK {
		t.Errorf("%s %s", got.Status, got.body)
	}
	if diff := cmp.Diff([]string{"paris"}, certificates.renewed); diff != "" {
		t.Errorf("renewed (-want +got):\n%s", diff)
	}
	last := reply{}
	for range renewalBurst {
		last = s.send(t, s.client(t, "paris"), post, certificatesPath, `{"csr":"x"}`)
	}
	if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") != "10" {
		t.Errorf("renewal %d: %s, retry after %q", renewalBurst+1, last.Status, last.Header.Get("Retry-After"))
	}
}

// TestPingReportsTheTrustDomain checks the ping's answer. An agent that connects by service account
// needs the trust domain for its first certificate.
func TestPingReportsTheTrustDomain(t *testing.T) {
	for want, certificates := range map[string]Certificates{"": nil, "fluidos.eu": &issuer{}} {
		s := newSite(t, transporttest.NewBroker(), func(s *Server) {
			s.registerRoutes(operations{broker: transporttest.NewBroker(), certificates: certificates, trust: s.trustDigest}, func(operation) bool { return true })
		})
		pong, err := s.agent(t).Ping(t.Context())
		if err != nil || pong.TrustDomain != want {
			t.Errorf("ping: %+v, %v; want trust domain %q", pong, err, want)
		}
	}
}
