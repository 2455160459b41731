package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// slowBody returns the beginning of a request whose body never ends.
func slowBody(method, path string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: 200000\r\n\r\n{", method, path, key)
}

// TestRefusalsDoNotWaitForBodies checks that a refusal does not depend on the body. Otherwise a
// client could hold a connection by withholding its body.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	tests := map[string]struct {
		method, path string
		edit         func(*Server)
		want         string
	}{
		"an unknown path":          {post, "/nope", nil, "404"},
		"an unknown method":        {http.MethodPut, reservationsPath, nil, "405"},
		"too many requests":        {post, reservationsPath, func(s *Server) { s.limits.inFlight = 0 }, "429"},
		"a bad parameter":          {post, reservationsPath + "/no_name/status", nil, "400"},
		"too many bytes of bodies": {post, "/api/v1/advertisements", func(s *Server) { _ = s.limits.admitBody("rome", bodyBurst, s.opts.Clock.Now()) }, "429"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, transporttest.NewBroker(), func(s *Server) {
				// With this timeout, a wait for the body would outlast the test.
				s.description.bodyTimeout = time.Hour
				if tc.edit != nil {
					tc.edit(s)
				}
			})
			conn := s.write(t, slowBody(tc.method, tc.path))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // the connection ends with the test
			runtest.Check(t, err)
			if !strings.HasPrefix(response.Status, tc.want) || !response.Close {
				t.Errorf("got %s, closing: %t; want %s and the end of the connection", response.Status, response.Close, tc.want)
			}
			_, _ = io.Copy(io.Discard, response.Body) // the whole answer, so that wantEnd sees only the end of the connection
			wantEnd(t, conn)
		})
	}
}

func TestUnusedBodiesMustArriveInTime(t *testing.T) {
	for _, path := range []string{"/api/v1/ping", documentPath} {
		s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.description.bodyTimeout = 100 * time.Millisecond })
		conn := s.write(t, slowBody(get, path))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // the connection ends with the test
		runtest.Check(t, err)
		if response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%s: got %s, want 408", path, response.Status)
		}
	}
}

// TestConnectionsOfOneClusterAreLimited checks that connections over HTTP/2 count even without a
// request.
func TestConnectionsOfOneClusterAreLimited(t *testing.T) {
	const most = 4
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.memberConnections = func() int { return most } })
			paris := s.client(t, "paris")
			s.send(t, paris, get, "/api/v1/ping", "")
			var conns []net.Conn
			for range 3 * most {
				conns = append(conns, s.greet(t, protocol))
			}
			for _, c := range conns[:2*most] {
				wantEnd(t, c)
			}
			s.log.await(t, "holds 4 of 4 connections")
			// A surplus connection is closed before the refusal is counted.
			for counted := 0.0; counted < 2*most; time.Sleep(time.Millisecond) {
				counted = testutil.ToFloat64(s.metrics.refusals.WithLabelValues("connections"))
			}
			if r := s.send(t, paris, get, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
				t.Errorf("another cluster got %s", r.Status)
			}
			s.connections.mu.Lock()
			defer s.connections.mu.Unlock()
			if n := len(s.connections.ofCluster["rome"]); n != most {
				t.Errorf("%d connections of rome are open, want %d", n, most)
			}
		})
	}
}

// greet opens a connection as rome and sends just enough to be noticed.
func (s *site) greet(t *testing.T, protocol string) net.Conn {
	t.Helper()
	config := s.tlsConfig(pkitest.Parse(t)(s.agentsCA.IssueClient("rome", "")))
	config.NextProtos = []string{protocol}
	conn, err := tls.Dial("tcp", s.address, config)
	runtest.Check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	hello, answer := "GET /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n", 1
	if protocol == "h2" {
		// The HTTP/2 preface and empty settings; the server answers with its own.
		hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	}
	if _, err := io.WriteString(conn, hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, answer)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBodiesDoNotBlockTheEnrolment opens 512 connections of one address with unfinished requests. They must leave
// room for other callers, even at the same address.
func TestSlowBodiesDoNotBlockTheEnrolment(t *testing.T) {
	for _, path := range []string{"/nope", enrolmentsPath} {
		t.Run(path, func(t *testing.T) {
			s := prepareEnrolmentSite(t, &issuer{issued: &v1.IssuedCertificate{BrokerURLs: []string{}}})
			runtest.Start(t, s)
			var slow sync.WaitGroup
			defer slow.Wait()
			stop := make(chan struct{})
			defer close(stop)
			for range 512 {
				slow.Go(func() { s.dawdle(t, path, stop) })
			}
			s.enrolAmongOthers(t)
		})
	}
}

// enrolAmongOthers enrols like an agent: it retries failures.
func (s *site) enrolAmongOthers(t *testing.T) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		r, err := s.try(t, s.clientWith(t), post, enrolmentsPath, goodEnrolment)
		if err == nil && r.StatusCode == http.StatusOK {
			return
		}
		if attempt == 5 {
			t.Fatalf("an honest cluster is not served: %v %s", err, r.body)
		}
	}
}

// dawdle sends single bytes of bodies, on one connection after the other, until stop is closed.
func (s *site) dawdle(t *testing.T, path string, stop <-chan struct{}) {
	config := s.tlsConfig()
	config.NextProtos = []string{"http/1.1"}
	for {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.address, config)
		if err == nil {
			_, err = io.WriteString(conn, slowBody(post, path))
		}
		for err == nil {
			select {
			case <-stop:
				err = net.ErrClosed
			case <-time.After(100 * time.Millisecond):
				_, err = io.WriteString(conn, " ")
			}
		}
		if conn != nil {
			_ = conn.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
	}
}

func TestBytesPerSecondOfOneCallerAreLimited(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLimits(1, 1)
	for i := range bodyBurst / maxBody {
		if err := l.admitBody("evil", maxBody, now); err != nil {
			t.Fatalf("body %d: %v", i, err)
		}
	}
	err := l.admitBody("evil", maxBody, now)
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Figure != "bodyRate" || refusal.RetryAfter != 16*time.Second || !strings.Contains(refusal.Detail, `"evil" sends more than 65536 bytes`) {
		t.Fatalf("beyond its burst: %v", err)
	}
	if err := l.admitBody("rome", maxBody, now); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	if err := l.admitBody("evil", freeBody, now); err != nil {
		t.Errorf("a small body: %v", err)
	}
	now = now.Add(refusal.RetryAfter)
	if err := l.admitBody("evil", maxBody, now); err != nil {
		t.Errorf("after the announced wait: %v", err)
	}
	if err := l.admitBody("evil", maxBody, now); err == nil {
		t.Error("a refused body refilled the budget")
	}
}

func TestRepeatedRefusalIsLoggedOnceAMinute(t *testing.T) {
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.limits = newLimits(10000, 10000) })
	rome, paris := s.client(t, "rome"), s.client(t, "paris")
	for range 50 {
		s.send(t, rome, get, "/nope", "")
	}
	s.send(t, paris, get, "/nope", "")
	if lines := s.log.with("request refused"); len(lines) != 2 {
		t.Errorf("%d lines, want one for each cluster: %q", len(lines), lines)
	}
	s.clock.SetTime(s.clock.Now().Add(logAgain))
	s.send(t, rome, get, "/nope", "")
	if lines := s.log.with("request refused"); len(lines) != 3 {
		t.Errorf("%d lines after a minute, want one more: %q", len(lines), lines)
	}
}
