package identity

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/server"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport/transporttest"
)

const (
	trustDomain = "fluidos.eu"
	goodToken   = "token.of.rome"
)

// site is a broker with both of its listeners, whose certificates come from a
// registry in memory.
type site struct {
	*registry
	clock             clock.PassiveClock
	servers           *pki.Authority
	certDir           string
	url, enrolmentURL string
}

func newSite(t *testing.T, clock clock.PassiveClock) *site {
	t.Helper()
	s := &site{
		clock:    clock,
		registry: &registry{now: clock.Now, agents: newAuthority(t), life: time.Hour, domain: trustDomain, tokens: map[string]string{goodToken: ""}},
		servers:  newAuthority(t), certDir: t.TempDir(),
	}
	s.serversPEM = s.servers.CertPEM()
	s.saveServer(t)
	s.url = s.serve(t, server.New)
	s.enrolmentURL = s.serve(t, server.NewEnrolment)
	s.brokerURLs = []string{s.url}
	return s
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority("test", time.Now().Add(-2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *site) saveServer(t *testing.T) {
	t.Helper()
	pair, err := s.servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err := errors.Join(err, pair.Save(s.certDir, s.serversPEM, s.agents.CertPEM())); err != nil {
		t.Fatal(err)
	}
}

func (s *site) serve(t *testing.T, open func(server.Options) (*server.Server, error)) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := open(server.Options{
		Listener: listener, CertDir: s.certDir, Broker: transporttest.NewBroker(), Certificates: s.registry,
		Clock: s.clock, Log: logr.Discard(), Rate: 10000, Burst: 10000,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return "https://" + listener.Addr().String()
}

func (s *site) caHash(t *testing.T) string {
	t.Helper()
	roots, err := pki.ParseBundle(s.servers.CertPEM())
	if err != nil {
		t.Fatal(err)
	}
	return pki.KeyHash(roots[0])
}

func (s *site) enroller(t *testing.T, caHash string) *httptransport.Enroller {
	t.Helper()
	e, err := httptransport.NewEnroller(httptransport.EnrollerOptions{
		URL: s.enrolmentURL, CAHashes: []string{caHash}, Now: s.clock.Now, UserAgent: "agent/test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// registry decides about certificates as a broker does: a token is bound to the key
// that it comes with first.
type registry struct {
	now        func() time.Time
	agents     *pki.Authority
	serversPEM []byte
	brokerURLs []string

	// mu guards the following.
	mu     sync.Mutex
	life   time.Duration
	domain string
	// tokens are the keys that tokens are bound to.
	tokens   map[string]string
	approved bool
	// failure is the answer to everything, if it is set.
	failure error
	// enrolled and renewed are the keys of requests, in order.
	enrolled, renewed []string
	issued            int
}

var _ server.Certificates = (*registry)(nil)

func (r *registry) edit(change func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *registry) Terms(context.Context) (*v1.EnrolmentTerms, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return nil, r.failure
	}
	return &v1.EnrolmentTerms{TrustDomain: r.domain}, nil
}

func (r *registry) Enrol(_ context.Context, q *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, key, err := r.read(q.Csr)
	if err != nil {
		return nil, nil, err
	}
	r.enrolled = append(r.enrolled, key)
	if q.Token == "" && !r.approved {
		return nil, &v1.EnrolmentPending{ClusterID: q.ClusterID, KeyFingerprint: key, Message: "approve " + q.ClusterID}, nil
	}
	if q.Token != "" {
		bound, known := r.tokens[q.Token]
		if !known {
			return nil, nil, fault.New(fault.TokenExpired, "the token expired")
		}
		if bound != "" && bound != key {
			return nil, nil, fault.New(fault.TokenUsed, "the token was used with another key")
		}
		r.tokens[q.Token] = key
	}
	issued, err := r.issue(request)
	return issued, nil, err
}

func (r *registry) Renew(_ context.Context, _ string, q *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, key, err := r.read(q.Csr)
	if err != nil {
		return nil, err
	}
	r.renewed = append(r.renewed, key)
	return r.issue(request)
}

// read needs mu.
func (r *registry) read(text string) (*x509.CertificateRequest, string, error) {
	if r.failure != nil {
		return nil, "", r.failure
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", fault.New(fault.InvalidCSR, "no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, "", fault.New(fault.InvalidCSR, "%v", err)
	}
	if want := "spiffe://" + r.domain + "/cluster/" + request.Subject.CommonName; len(request.URIs) != 1 || request.URIs[0].String() != want {
		return nil, "", fault.New(fault.InvalidCSR, "URIs %v, want %s", request.URIs, want)
	}
	return request, pki.KeyHash(&x509.Certificate{RawSubjectPublicKeyInfo: request.RawSubjectPublicKeyInfo}), nil
}

// issue needs mu.
func (r *registry) issue(request *x509.CertificateRequest) (*v1.IssuedCertificate, error) {
	now := r.now()
	certificate, err := r.agents.Certify(request.PublicKey, &x509.Certificate{
		Subject: request.Subject, URIs: request.URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: now, NotAfter: now.Add(r.life),
	})
	if err != nil {
		return nil, err
	}
	r.issued++
	return &v1.IssuedCertificate{
		Certificate: string(certificate), Ca: string(r.serversPEM), AgentsCA: string(r.agents.CertPEM()), BrokerURLs: r.brokerURLs,
	}, nil
}
