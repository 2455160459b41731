package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Limits of connections.
const (
	headerTimeout = 5 * time.Second
	// writeTimeout leaves the longest poll, 60 s, time for its answer.
	writeTimeout   = 90 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	maxStreams     = 100
	// Of a connection over HTTP/2 so much is buffered that no handler has read.
	maxStreamBuffer     = 64 << 10
	maxConnectionBuffer = 256 << 10
	// shutdownGrace is what requests under way get to end; polls end at once. It is
	// less than what the manager waits for the server.
	shutdownGrace = 8 * time.Second
)

const (
	documentPath    = "/openapi.json"
	documentPattern = http.MethodGet + " " + documentPath
)

// Options of a Server. CertDir is required, and Broker for agents.
type Options struct {
	// Addr to listen on, ":8443" if empty.
	Addr string
	// Listener is used in place of Addr if it is set; the server closes it.
	Listener net.Listener
	// Direct is served as well if it is set; the server closes it.
	Direct net.Listener
	// CertDir holds the server's certificate and the CA of agents as pki.Files reads
	// them. A second after files were replaced, the certificate is that of new
	// connections, and the CA that of every request.
	CertDir string
	// Broker decides.
	Broker Broker
	// Access says at every request whether its cluster takes part, and ends what a
	// cluster that no longer does has open. Without it a good certificate is enough.
	Access *access.Gate
	// Certificates issues certificates; without it none is renewed.
	Certificates Certificates
	// OnRefusal is told whenever a budget stops a member: which figure of it, and the words
	// that the member got. It must not block.
	OnRefusal func(member, figure, detail string)
	// Log gets one line per request; those that agents repeat are at V(1).
	Log logr.Logger
	// Registerer of the metrics; without one they are not shown.
	Registerer prometheus.Registerer
	// Clock is the wall clock if nil.
	Clock clock.PassiveClock
	// Rate is how many requests a second one cluster may send over time, 50 if 0.
	Rate rate.Limit
	// Burst is how many it may send at once, 100 if 0.
	Burst int
}

// Server is the REST API as a runnable of a controller-runtime manager: that of
// agents (New), or that of clusters which are to become one (NewEnrolment).
type Server struct {
	name     string
	addr     string
	listener net.Listener
	direct   net.Listener
	files    *pki.Files
	log      logr.Logger
	clock    clock.PassiveClock

	// identify names the caller, for limits, logs and operations.
	identify    func(*http.Request) (string, error)
	description *description
	connections connections
	// lobby holds connections of unknown callers, members counts those of known ones; the
	// latter is nil where no caller is known.
	lobby   *lobby
	members *members
	limits  *limits
	// admitsLate has a request count against the limits once its body has arrived.
	admitsLate bool
	// onRefusal is told of members that a budget stopped; nil where nobody wants to know.
	onRefusal func(member, figure, detail string)
	access    *access.Gate
	metrics   *metrics
	mux       *http.ServeMux
	http      *http.Server
	drain     context.CancelFunc
	witness   func(clusterID, cursor string)
	// certificateProblem is the one that was logged last.
	certificateProblem atomic.Value
}

// New makes the server of agents. It checks options and reads certificates;
// nothing runs before Start.
func New(o Options) (*Server, error) {
	if o.Broker == nil {
		return nil, errors.New("REST server without a broker")
	}
	s, err := newServer(o, "REST")
	if err != nil {
		return nil, err
	}
	draining, drain := context.WithCancel(context.Background())
	s.drain = drain
	s.identify = s.clusterOf
	s.onRefusal = o.OnRefusal
	s.members = newMembers(func() int { return defaultConnections })
	if o.Access != nil {
		s.limits.set = o.Access.Limits
		s.members.each = func() int { return cmp.Or(o.Access.Limits().Connections, defaultConnections) }
	}
	s.witness = o.Broker.Witness
	s.route(operations{
		broker: o.Broker, certificates: o.Certificates, renewals: newLimits(renewalRate, renewalBurst), clock: s.clock,
		trust: s.trustDigest, draining: draining,
	},
		func(op operation) bool { return !op.enrolment })
	return s, nil
}

func newServer(o Options, name string) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	files, err := pki.OpenFiles(o.CertDir, o.Clock.Now)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", name, err)
	}
	d, err := newDescription(v1.OpenAPI, o.Clock.Now)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", name, err)
	}
	s := &Server{
		name:        name,
		addr:        cmp.Or(o.Addr, ":8443"),
		listener:    o.Listener,
		direct:      o.Direct,
		files:       files,
		log:         o.Log,
		clock:       o.Clock,
		description: d,
		limits:      newLimits(cmp.Or(o.Rate, defaultRate), cmp.Or(o.Burst, defaultBurst)),
		metrics:     m,
		access:      o.Access,
		drain:       func() {},
		witness:     func(string, string) {},
		lobby:       newLobby(lobbyRoom, o.Clock),
	}
	s.http = s.newHTTPServer()
	s.certificateProblem.Store("")
	return s, nil
}

// route serves the operations that are wanted; to callers there are no others.
func (s *Server) route(o operations, wanted func(operation) bool) {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc(documentPattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.description.document) // the caller may have gone
	})
	bridge := v1.NewStrictHandlerWithOptions(o, []v1.StrictMiddlewareFunc{explainShut}, v1.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  refuseInvalid,
		ResponseErrorHandlerFunc: refuse,
	})
	v1.HandlerWithOptions(bridge, v1.StdHTTPServerOptions{
		BaseRouter:       selection{s.mux, func(pattern string) bool { return wanted(s.description.operations[pattern]) }},
		Middlewares:      []v1.MiddlewareFunc{s.description.check},
		ErrorHandlerFunc: refuseInvalid,
	})
}

// selection takes some of the routes that the generated code registers.
type selection struct {
	*http.ServeMux
	takes func(pattern string) bool
}

func (s selection) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	if s.takes(pattern) {
		s.ServeMux.HandleFunc(pattern, handler)
	}
}

// refuseInvalid answers what the generated code could not read.
func refuseInvalid(w http.ResponseWriter, r *http.Request, err error) {
	refuse(w, r, fault.New(fault.Invalid, "%v", err))
}

func (s *Server) newHTTPServer() *http.Server {
	tlsConfig := s.files.ServerTLS("h2", "http/1.1")
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         tlsConfig,
		ConnContext:       s.connContext,
		ConnState:         s.connState,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: maxStreamBuffer, MaxReceiveBufferPerConnection: maxConnectionBuffer,
		},
		ErrorLog: stdlog.New(connectionLog{s.log}, "", 0),
	}
}

// Start serves until ctx ends. Polls under way are then answered at once with 503,
// other requests may finish.
func (s *Server) Start(ctx context.Context) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	served := make(chan error, len(listeners))
	for _, listener := range listeners {
		s.log.Info(s.name+" API is served", "address", listener.Addr().String())
		go func() { served <- s.http.ServeTLS(s.lobby.listener(listener), "", "") }()
	}
	select {
	case err := <-served:
		s.drain()
		return fmt.Errorf("%s server: %w", s.name, errors.Join(err, s.http.Close()))
	case <-ctx.Done():
	}
	s.drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err = s.http.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	for range listeners {
		if stopped := <-served; err == nil && !errors.Is(stopped, http.ErrServerClosed) {
			err = fmt.Errorf("%s server: %w", s.name, stopped)
		}
	}
	return err
}

func (s *Server) listen(ctx context.Context) ([]net.Listener, error) {
	front := s.listener
	if front == nil {
		var err error
		if front, err = new(net.ListenConfig).Listen(ctx, "tcp", s.addr); err != nil {
			return nil, fmt.Errorf("%s server: %w", s.name, err)
		}
	}
	if s.direct == nil {
		return []net.Listener{front}, nil
	}
	return []net.Listener{front, s.direct}, nil
}

// NeedLeaderElection is false: followers serve too.
func (*Server) NeedLeaderElection() bool { return false }

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	s.noteCertificates()
	return s.connections.begin(ctx, c)
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateActive:
		s.recognise(c)
	case http.StateClosed, http.StateHijacked:
		s.lobby.leave(rawConn(c))
		s.connections.end(c)
	}
}

// recognise counts a connection for its cluster as soon as the handshake has shown which
// one that is: over HTTP/2 a request may never follow.
func (s *Server) recognise(c net.Conn) {
	secured, ok := c.(*tls.Conn)
	connected := s.connections.of(c)
	if !ok || s.members == nil || connected == nil {
		return
	}
	certificates := secured.ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return
	}
	id, err := pki.ClusterID(certificates[0])
	if err != nil {
		return // its first request is refused
	}
	if over, most := connected.recognise(s.members, s.lobby, id); over != "" {
		s.overBudget(over, "connections", fmt.Sprintf("member %q holds %d of %d connections; its oldest was closed", over, most, most))
	}
}

// noteCertificates logs once that replaced files cannot be used, or can again.
func (s *Server) noteCertificates() {
	problem := s.files.Problem()
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if s.certificateProblem.Swap(text) == text {
		return
	}
	if problem != nil {
		s.log.Error(problem, "Replaced certificate files are not in use")
		return
	}
	s.log.Info("Replaced certificate files are in use")
}

// connectionLog takes what net/http says of connections that came to nothing, such
// as those without a certificate.
type connectionLog struct{ log logr.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.log.V(1).Info("Connection refused", "cause", strings.TrimSpace(string(line)))
	return len(line), nil
}
