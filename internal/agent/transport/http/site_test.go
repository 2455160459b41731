package http_test

import (
	"errors"
	"io"
	stdlog "log"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// site holds what a broker and its clients share: a CA for each side, and the time.
type site struct {
	agentsCA, serverCA *pkitest.Authority
	// serverIP is in the certificate of servers.
	serverIP net.IP
}

func newSite(t *testing.T) *site {
	t.Helper()
	now := time.Now()
	return &site{agentsCA: pkitest.New(t, "agents", now), serverCA: pkitest.New(t, "servers", now), serverIP: net.IPv4(127, 0, 0, 1)}
}

// serve runs a server until the test ends, and returns its URL.
func (s *site) serve(t *testing.T, broker server.Broker, listener net.Listener) string {
	t.Helper()
	url, _ := s.start(t, broker, listener)
	return url
}

// start is serve with a way to stop the server early.
func (s *site) start(t *testing.T, broker server.Broker, listener net.Listener) (url string, stop func()) {
	t.Helper()
	srv, err := server.New(server.Options{
		Listener: listener, CertDir: s.serverDir(t), Broker: broker, Log: testr.New(t), Rate: 10000, Burst: 10000,
	})
	runtest.Check(t, err)
	return "https://" + listener.Addr().String(), runtest.Start(t, srv)
}

func (s *site) serverDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	pair, err := s.serverCA.IssueServer(nil, []net.IP{s.serverIP})
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, s.serverCA.CertPEM(), s.agentsCA.CertPEM())))
	return dir
}

// clientDir creates the certificate directory of a cluster's agent.
func (s *site) clientDir(t *testing.T, clusterID string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), clusterID)
	s.issueClient(t, dir, clusterID)
	return dir
}

// issueClient replaces the certificate in dir.
func (s *site) issueClient(t *testing.T, dir, clusterID string) {
	t.Helper()
	pair, err := s.agentsCA.IssueClient(clusterID, "fluidos.eu")
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, s.serverCA.CertPEM(), s.agentsCA.CertPEM())))
}

func (s *site) files(t *testing.T, dir string) *pki.Files {
	t.Helper()
	files, err := pki.OpenFiles(dir, time.Now)
	runtest.Check(t, err)
	return files
}

func (s *site) connect(t *testing.T, dir string, urls ...string) *http.Transport {
	t.Helper()
	return s.connectFiles(t, s.files(t, dir), urls...)
}

func (s *site) connectFiles(t *testing.T, files *pki.Files, urls ...string) *http.Transport {
	t.Helper()
	tr, err := http.New(http.Options{URLs: urls, Files: files, UserAgent: "agent/test"})
	runtest.Check(t, err)
	t.Cleanup(func() { _ = tr.Close() }) // Close never fails
	return tr
}

// stub serves handler instead of a broker, over the same mTLS.
func (s *site) stub(t *testing.T, handler nethttp.HandlerFunc) string {
	t.Helper()
	stub := httptest.NewUnstartedServer(handler)
	stub.TLS = s.files(t, s.serverDir(t)).ServerTLS("h2", "http/1.1")
	// httptest adds its own certificate, which GetConfigForClient overrides.
	stub.EnableHTTP2 = true
	stub.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	stub.StartTLS()
	t.Cleanup(stub.Close)
	return stub.URL
}
