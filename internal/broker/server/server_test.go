package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestNewReportsMissingOptions(t *testing.T) {
	if _, err := New(Options{CertDir: t.TempDir()}); err == nil {
		t.Error("a server without broker was made")
	}
	if _, err := New(Options{CertDir: t.TempDir(), Broker: transporttest.NewBroker()}); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("New without certificates: %v; want it to name tls.crt", err)
	}
}

func TestStartFailsOnATakenAddress(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	second, err := New(Options{Addr: s.address, CertDir: s.certDir, Broker: s.broker})
	runtest.Check(t, err)
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), s.address) {
		t.Errorf("Start: %v; want an error that names %s", err, s.address)
	}
	if second.NeedLeaderElection() {
		t.Error("the server waits for the lease; followers must serve too")
	}
}

func TestSlowHeadersEndTheConnection(t *testing.T) {
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.http.ReadHeaderTimeout = 100 * time.Millisecond })
	conn := s.write(t, "GET /api/v1/ping HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	wantEnd(t, conn)

	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
	runtest.Check(t, err)
	defer func() { _ = silent.Close() }()
	wantEnd(t, silent)
}

func TestSlowBodiesAreRefused(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.description.bodyTimeout = 100 * time.Millisecond })
			client := s.client(t, "rome")
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
			body, writer := io.Pipe()
			defer func() { _ = writer.Close() }()
			request, err := http.NewRequestWithContext(t.Context(), post, "https://"+s.address+reservationsPath, body)
			runtest.Check(t, err)
			request.Header.Set("Idempotency-Key", key)
			response, err := client.Do(request)
			runtest.Check(t, err)
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusRequestTimeout {
				t.Errorf("got %s; want 408", response.Status)
			}
		})
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	client := s.client(t, "rome")
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	request, err := http.NewRequestWithContext(t.Context(), get, "https://"+s.address+"/api/v1/ping", nil)
	runtest.Check(t, err)
	request.Header.Set("X-Big", strings.Repeat("x", 2*maxHeaderBytes))
	response, err := client.Do(request)
	if err != nil {
		return // the broker may also cut the connection
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s; want 431", response.Status)
	}
}

func TestFloodOfOneClusterIsRefusedWithoutAffectingOthers(t *testing.T) {
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.limits = newLimits(2, 10) })
	rome := s.client(t, "rome")
	var refused []reply
	for range 15 {
		if r := s.send(t, rome, get, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
			refused = append(refused, r)
		}
	}
	if len(refused) != 5 {
		t.Fatalf("%d of 15 requests refused; want 5 behind a burst of 10", len(refused))
	}
	for _, r := range refused {
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "1" || r.problem.Reason != string(fault.TooManyRequests) {
			t.Errorf("got %s, Retry-After %q: %s", r.Status, r.Header.Get("Retry-After"), r.body)
		}
	}
	if r := s.send(t, s.client(t, "paris"), get, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
		t.Errorf("another cluster got %s", r.Status)
	}
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if r := s.send(t, rome, get, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
		t.Errorf("after a second the cluster got %s", r.Status)
	}
}

func TestPollsOfOneClusterAreLimited(t *testing.T) {
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.limits.inFlight = 2 })
	client := s.client(t, "rome")
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.try(t, client, get, "/api/v1/instructions?wait=60", "")
			done <- err
		}()
	}
	runtest.Check(t, s.broker.AwaitCalls(t.Context(), transporttest.FetchInstructions, 2))
	if r := s.send(t, client, get, "/api/v1/instructions?wait=60", ""); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("third poll got %s; want 429", r.Status)
	}
	s.broker.Instruct("rome", v1.Instruction{Reservation: "res-1", Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold})
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if r := s.send(t, client, get, "/api/v1/instructions", ""); r.StatusCode != http.StatusOK {
		t.Errorf("poll after the others ended got %s", r.Status)
	}
}

func TestErrorsOfTheBrokerBecomeProblems(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	client := s.client(t, "rome")
	for name, tc := range map[string]struct {
		err        error
		status     int
		reason     fault.Reason
		detail     string
		retryAfter string
	}{
		"a fault":                  {fault.New(fault.Conflict, "placement %d is gone", 1), 409, fault.Conflict, "placement 1 is gone", ""},
		"wrapped":                  {fmt.Errorf("more: %w", fault.New(fault.NotFound, "none")), 404, fault.NotFound, "none", ""},
		"a fault with a wait":      {&fault.Error{Reason: fault.NoCandidate, RetryAfter: 1500 * time.Millisecond}, 409, fault.NoCandidate, "", "2"},
		"for load":                 {fault.New(fault.Unavailable, "no journal"), 503, fault.Unavailable, "no journal", "1"},
		"a defect":                 {errors.New("canary-4711"), 500, fault.Internal, "the broker's log says more", ""},
		"the broker's own timeout": {context.DeadlineExceeded, 500, fault.Internal, "the broker's log says more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.broker.Fail(transporttest.Ping, tc.err)
			r := s.send(t, client, get, "/api/v1/ping", "")
			got := []any{r.StatusCode, r.problem.Reason, r.problem.Detail, r.Header.Get("Retry-After")}
			want := []any{tc.status, string(tc.reason), tc.detail, tc.retryAfter}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %q; want %q", got, want)
			}
		})
	}
	s.stop()
	if n := len(s.log.with("canary-4711")); n != 1 {
		t.Errorf("a defect was logged %d times; want once", n)
	}
}

// opening is a broker that answers pings once it was awaited.
type opening struct {
	*transporttest.Broker
	opened atomic.Bool
}

func (b *opening) AwaitOpening(context.Context) { b.opened.Store(true) }

func (b *opening) Ping(ctx context.Context, clusterID string) (*v1.Pong, error) {
	if !b.opened.Load() {
		return nil, fault.New(fault.Unavailable, "no journal")
	}
	return b.Broker.Ping(ctx, clusterID)
}

func TestCallsAwaitTheBrokersOpening(t *testing.T) {
	s := newSite(t, &opening{Broker: transporttest.NewBroker()})
	if r := s.send(t, s.client(t, "rome"), get, "/api/v1/ping", ""); r.StatusCode != http.StatusOK {
		t.Errorf("a call while the broker opens its journal got %s, want 200", r.Status)
	}
}

// panicking is a broker with a defect.
type panicking struct{ *transporttest.Broker }

func (panicking) Ping(context.Context, string) (*v1.Pong, error) { panic("canary-4711") }

func TestPanicsAreAnsweredAndLogged(t *testing.T) {
	s := newSite(t, panicking{transporttest.NewBroker()})
	client := s.client(t, "rome")
	for range 2 {
		r := s.send(t, client, get, "/api/v1/ping", "")
		if r.StatusCode != http.StatusInternalServerError || strings.Contains(r.body, "canary") {
			t.Errorf("got %s: %s; want 500 without the cause", r.Status, r.body)
		}
	}
	s.stop()
	found := s.log.with("canary-4711")
	if len(found) != 2 || !strings.Contains(found[0], "server_test.go") {
		t.Errorf("two panics are logged as %q; want two lines with the place", found)
	}
}

func TestRequestHasOneLogLineAndOneCount(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	client := s.client(t, "rome")
	s.send(t, client, get, "/api/v1/ping", "")
	s.send(t, client, post, reservationsPath, `{"resources":{"cpu":"1"},"tenant":"canary-4711"}`, "Idempotency-Key", key, "Authorization", "canary-4711")
	s.send(t, client, get, reservationsPath+"/canary-4711", "")
	s.send(t, client, get, "/canary-4711/", "")
	s.stop() // a line is written only after the answer

	for operation, want := range map[string]string{
		"ping": `"cluster"="rome" "status"=200`, "requestReservation": `"cluster"="rome" "status"=200`,
		"getReservation": `"status"=404`, "none": `"status"=404`,
	} {
		found := s.log.with(`"operation"="` + operation + `"`)
		if len(found) != 1 || !strings.Contains(found[0], want) || !strings.Contains(found[0], `"duration"=`) {
			t.Errorf("lines of %s: %q; want one with %s", operation, found, want)
		}
	}
	for _, line := range s.log.with("canary-4711") {
		// The detail of a refusal names the requested object.
		if !strings.Contains(line, `"operation"="getReservation"`) {
			t.Errorf("body, header or path in the log: %s", line)
		}
	}
	const want = `
# HELP broker_rest_requests_total Requests answered, by operation of the API and status code.
# TYPE broker_rest_requests_total counter
broker_rest_requests_total{code="200",operation="ping"} 1
broker_rest_requests_total{code="200",operation="requestReservation"} 1
broker_rest_requests_total{code="404",operation="getReservation"} 1
broker_rest_requests_total{code="404",operation="none"} 1
broker_rest_requests_total{code="500",operation="changeReservation"} 0
broker_rest_requests_total{code="500",operation="releaseReservation"} 0
broker_rest_requests_total{code="500",operation="requestReservation"} 0
broker_rest_requests_total{code="503",operation="changeReservation"} 0
broker_rest_requests_total{code="503",operation="releaseReservation"} 0
broker_rest_requests_total{code="503",operation="requestReservation"} 0
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "broker_rest_requests_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(s.registry, "broker_rest_request_duration_seconds"); n != 4 || err != nil {
		t.Errorf("%d duration series, %v; want 4", n, err)
	}
}

func TestAbandonedRequestIsNotAnError(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, get, "https://"+s.address+"/api/v1/instructions?wait=60", nil)
	runtest.Check(t, err)
	left := make(chan error, 1)
	client := s.client(t, "rome")
	go func() {
		_, err := client.Do(request) //nolint:bodyclose // there is no answer
		left <- err
	}()
	runtest.Check(t, s.broker.AwaitCalls(t.Context(), transporttest.FetchInstructions, 1))
	cancel()
	if err := <-left; err == nil {
		t.Error("an abandoned call was answered")
	}
	if found := s.log.await(t, `"status"=499`); len(found) != 1 || !strings.Contains(found[0], "gave up") {
		t.Errorf("lines: %q; want one about the abandoned request", found)
	}
}

// TestHalfClosedCallerIsToldToRetry closes only the caller's sending side. A proxy may do so and
// still deliver the answer.
func TestHalfClosedCallerIsToldToRetry(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	conn := s.write(t, "GET /api/v1/instructions?wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
	runtest.Check(t, s.broker.AwaitCalls(t.Context(), transporttest.FetchInstructions, 1))
	runtest.Check(t, conn.CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	runtest.Check(t, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("the answer is %s, want 503 with Retry-After", response.Status)
	}
	if found := s.log.await(t, `"status"=499`); len(found) != 1 {
		t.Errorf("lines: %q; want one about the abandoned request", found)
	}
}

// writing is a broker whose RequestReservation closes begun and then waits for proceed, like a
// broker that waits for the journal.
type writing struct {
	*transporttest.Broker
	begun, proceed chan struct{}
}

func (w writing) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	close(w.begun)
	<-w.proceed
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w.Broker.RequestReservation(ctx, clusterID, key, req)
}

func TestShutdownEndsPollsAndLetsWritesFinish(t *testing.T) {
	broker := writing{transporttest.NewBroker(), make(chan struct{}), make(chan struct{})}
	s := newSite(t, broker)
	client := s.client(t, "rome")
	replies := map[string]chan reply{"poll": make(chan reply, 1), "messages": make(chan reply, 1), "write": make(chan reply, 1)}
	begin := func(name, method, path, body string) {
		go func() {
			r, err := s.try(t, client, method, path, body, "Idempotency-Key", key)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				r = reply{Response: &http.Response{}}
			}
			replies[name] <- r
		}()
	}
	begin("poll", get, "/api/v1/instructions?wait=60", "")
	begin("messages", get, "/api/v1/messages?wait=60", "")
	begin("write", post, reservationsPath, `{"resources":{}}`)
	for _, operation := range []transporttest.Operation{transporttest.FetchInstructions, transporttest.ReceiveMessages} {
		runtest.Check(t, broker.AwaitCalls(t.Context(), operation, 1))
	}
	<-broker.begun

	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	for _, name := range []string{"poll", "messages"} {
		if r := <-replies[name]; r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s got %s: %s; want 503 with Retry-After", name, r.Status, r.body)
		}
	}
	close(broker.proceed)
	if r := <-replies["write"]; r.StatusCode != http.StatusOK {
		t.Errorf("write got %s: %s; want 200", r.Status, r.body)
	}
	<-stopped
}

func wantEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn) // any end of the connection is fine
	}()
	select {
	case <-ended:
	case <-time.After(hangLimit):
		t.Error("connection is still open")
	}
}

// overConnection returns a client that uses only this connection.
func overConnection(t *testing.T, conn *tls.Conn) *http.Client {
	t.Helper()
	conns := make(chan *tls.Conn, 1)
	conns <- conn
	transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-conns:
			return c, nil
		default:
			return nil, errors.New("second connection")
		}
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
