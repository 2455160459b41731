package identitytest

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Site is a broker with two listeners: one for agents that have a certificate, and one for
// enrolment.
type Site struct {
	*Registry
	// Broker handles the calls of agents with a certificate.
	Broker *transporttest.Broker
	// URL is the address of the listener for agents. EnrolmentURL is the address of the listener
	// for enrolment.
	URL, EnrolmentURL string

	clock   clock.PassiveClock
	servers *pkitest.Authority
	certDir string
}

// New starts a Site. It runs until the test ends.
func New(t *testing.T, c clock.PassiveClock) *Site {
	t.Helper()
	s := &Site{
		Registry: NewRegistry(t, c), Broker: transporttest.NewBroker(),
		clock: c, servers: NewAuthority(t, c), certDir: t.TempDir(),
	}
	s.ServersCA = s.servers.CertPEM()
	s.SaveServer(t)
	s.URL = s.serve(t, server.New)
	s.EnrolmentURL = s.serve(t, server.NewEnrolment)
	s.BrokerURLs = []string{s.URL}
	return s
}

// NewAuthority returns a CA whose certificate began to be valid two hours ago.
func NewAuthority(t *testing.T, c clock.PassiveClock) *pkitest.Authority {
	t.Helper()
	return pkitest.New(t, "test", c.Now().Add(-2*time.Hour))
}

// SaveServer issues a new certificate for the broker's listeners, and makes them trust
// certificates of the Registry's CA.
func (s *Site) SaveServer(t *testing.T) {
	t.Helper()
	pair, err := s.servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, errors.Join(err, pkitest.Save(s.certDir, pair, s.ServersCA, s.Agents.CertPEM())))
}

func (s *Site) serve(t *testing.T, open func(server.Options) (*server.Server, error)) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	srv, err := open(server.Options{
		Listener: listener, CertDir: s.certDir, Broker: s.Broker, Certificates: s.Registry,
		Clock: s.clock, Log: logr.Discard(), Rate: 10000, Burst: 10000,
	})
	runtest.Check(t, err)
	runtest.Start(t, srv)
	return "https://" + listener.Addr().String()
}

// CAHash returns the value for --enrolment-ca-hash that `broker enrol` would print.
func (s *Site) CAHash(t *testing.T) string {
	t.Helper()
	roots, err := pki.ParseBundle(s.servers.CertPEM())
	runtest.Check(t, err)
	return pki.KeyHash(roots[0])
}

// Enroller returns an Enroller for the Site's enrolment listener.
func (s *Site) Enroller(t *testing.T, caHash string) *httptransport.Enroller {
	t.Helper()
	e, err := httptransport.NewEnroller(httptransport.EnrollerOptions{
		URL: s.EnrolmentURL, CAHashes: []string{caHash}, Now: s.clock.Now, UserAgent: "agent/test",
	})
	runtest.Check(t, err)
	return e
}
