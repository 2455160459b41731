package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const key = "0b2f7c1e-rome.1"

// hangLimit ends a wait for something that must happen. It is far longer than the slowest machine needs.
const hangLimit = 5 * time.Minute

// site is a running server with a recording broker, and the credentials to reach it.
type site struct {
	*Server
	broker   *transporttest.Broker
	registry *prometheus.Registry
	clock    *clocktesting.FakePassiveClock
	agentsCA *pkitest.Authority
	serverCA *pkitest.Authority
	certDir  string
	address  string
	log      *lines
	// stop ends the server and waits until it has ended.
	stop func()
}

// newSite runs a server until the test ends. edits change it before it starts.
func newSite(t *testing.T, broker Broker, edits ...func(*Server)) *site {
	t.Helper()
	s := &site{registry: prometheus.NewRegistry(), certDir: t.TempDir(), log: newLines()}
	s.broker, _ = broker.(*transporttest.Broker)
	now := time.Now()
	s.clock = clocktesting.NewFakePassiveClock(now)
	s.agentsCA, s.serverCA = pkitest.New(t, "test", now), pkitest.New(t, "test", now)
	s.saveServer(t, s.agentsCA)

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	s.address = listener.Addr().String()
	s.Server, err = New(Options{
		Listener: listener, CertDir: s.certDir, Broker: broker, Log: s.log.logger(), Registerer: s.registry, Clock: s.clock,
	})
	runtest.Check(t, err)
	for _, edit := range edits {
		edit(s.Server)
	}
	s.stop = runtest.Start(t, s)
	return s
}

func (s *site) saveServer(t *testing.T, agentsCA *pkitest.Authority) {
	t.Helper()
	pair, err := s.serverCA.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, errors.Join(err, pkitest.Save(s.certDir, pair, s.serverCA.CertPEM(), agentsCA.CertPEM())))
	s.later()
}

// later moves the clock forward by a second, after which the server reads its files again.
func (s *site) later() { s.clock.SetTime(s.clock.Now().Add(time.Second)) }

// client returns a client with a valid certificate of a cluster.
func (s *site) client(t *testing.T, clusterID string) *http.Client {
	t.Helper()
	return s.clientWith(t, pkitest.Parse(t)(s.agentsCA.IssueClient(clusterID, "")))
}

func (s *site) clientWith(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.tlsConfig(certificates...), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func (s *site) tlsConfig(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{
		// The client sends its certificate even if the server's list of CAs rules it out.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return new(tls.Certificate), nil
			}
			return &certificates[0], nil
		},
		RootCAs:    s.serverCA.Pool(),
		MinVersion: tls.VersionTLS12,
	}
}

// write sends bytes as rome on a connection of its own, over HTTP/1.1.
func (s *site) write(t *testing.T, bytes string) *tls.Conn {
	t.Helper()
	config := s.tlsConfig(pkitest.Parse(t)(s.agentsCA.IssueClient("rome", "")))
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", s.address, config)
	runtest.Check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, bytes); err != nil {
		t.Fatal(err)
	}
	return conn
}

// reply is an answer with its whole body.
type reply struct {
	*http.Response
	body    string
	problem v1.Problem
}

func (s *site) send(t *testing.T, client *http.Client, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := s.try(t, client, method, path, body, header...)
	runtest.Check(t, err)
	return r
}

func (s *site) try(t *testing.T, client *http.Client, method, path, body string, header ...string) (reply, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+path, strings.NewReader(body))
	runtest.Check(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	raw, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return reply{}, err
	}
	r := reply{Response: response, body: string(raw)}
	if response.StatusCode >= http.StatusBadRequest {
		checkProblem(t, &r)
	}
	return r, nil
}

// checkProblem checks that a refusal is a complete problem document, and stores the document in r.
func checkProblem(t *testing.T, r *reply) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("refusal %d has content type %q and body %q", r.StatusCode, got, r.body)
		return
	}
	decoder := json.NewDecoder(strings.NewReader(r.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r.problem); err != nil || r.problem.Status != r.StatusCode || r.problem.Reason == "" || r.problem.Title == "" {
		t.Errorf("refusal %d is no complete problem document: %v: %s", r.StatusCode, err, r.body)
	}
}

func clientTemplate(commonName string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// lines collects the lines that the broker logs.
type lines struct {
	// more has an element when there are lines that await has not seen.
	more chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(args + "\n")
		select {
		case l.more <- struct{}{}:
		default:
		}
	}, funcr.Options{Verbosity: 1})
}

// with returns the lines that contain a text.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// await waits for lines that contain a text and returns them.
func (l *lines) await(t *testing.T, text string) []string {
	t.Helper()
	late := time.After(hangLimit)
	for {
		if found := l.with(text); found != nil {
			return found
		}
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("no log line with %q", text)
		}
	}
}
