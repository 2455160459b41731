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
	"golang.org/x/net/netutil"
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
	// maxStreamBuffer and maxConnectionBuffer limit the data of HTTP/2 requests that no handler has read yet.
	maxStreamBuffer     = 64 << 10
	maxConnectionBuffer = 256 << 10
	// shutdownGrace is how long in-flight requests may take to finish; polls end at once. The manager waits longer
	// for the server.
	shutdownGrace = 8 * time.Second
)

const (
	documentPath    = "/openapi.json"
	documentPattern = http.MethodGet + " " + documentPath
)

// Options configure a Server. CertDir is always required. New also requires Broker.
type Options struct {
	// Addr is the address to listen on, ":8443" if empty.
	Addr string
	// Listener replaces Addr if set. The server closes it.
	Listener net.Listener
	// Direct is a second listener if set. The server closes it.
	Direct net.Listener
	// CertDir holds the server's certificate and the CA of agents, in the layout of pki.Files. A second after files
	// were replaced, new connections get the new certificate, and every request is checked with the new CA.
	CertDir string
	// Broker carries out the requests.
	Broker Broker
	// Access decides at every request whether the cluster takes part. It ends the requests and connections of a
	// cluster that is denied later. If nil, a valid certificate is enough.
	Access *access.Gate
	// Certificates issues certificates to clusters. If it is nil, clusters cannot renew theirs here.
	Certificates Certificates
	// OnRefusal is called when a member exceeds its budget, with the name of the exceeded limit and a message that
	// describes the refusal. It must not block.
	OnRefusal func(member, figure, detail string)
	// Log gets at most one line per request. Requests that were served are logged at V(1).
	Log logr.Logger
	// Registerer registers the metrics if set.
	Registerer prometheus.Registerer
	// Clock tells the time; nil means the wall clock.
	Clock clock.PassiveClock
	// Rate is how many requests per second one cluster may send over time, 50 if 0.
	Rate rate.Limit
	// Burst is how many requests one cluster may send at once, 100 if 0.
	Burst int
}

// Server is the REST API as a runnable of a controller-runtime manager: for agents (New) or for clusters without a
// certificate (NewEnrolment).
type Server struct {
	opts  Options
	name  string
	files *pki.Files

	// identify returns the caller, for limits, logs and operations.
	identify func(*http.Request) (string, error)
	// unknownPath is the answer to a path that is not served.
	unknownPath string
	description *description
	connections connections
	// maxConnections is how many connections may be open on one listener, and memberConnections how many of one
	// cluster.
	maxConnections    int
	memberConnections func() int
	limits            *limits
	// admitsLate makes a request count against the limits once its body has arrived, instead of at its start.
	admitsLate bool
	metrics    *metrics
	mux        *http.ServeMux
	http       *http.Server
	drain      context.CancelFunc
	await      func(context.Context)
	witness    func(clusterID, cursor string)
	// certificateProblem is the last logged problem with the certificate files.
	certificateProblem atomic.Value
}

// New returns the server for agents. It checks options and reads certificates; nothing runs before Start.
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
	s.unknownPath = "no such path: " + documentPath + " describes the API"
	if o.Access != nil {
		s.limits.set = o.Access.Limits
		s.memberConnections = func() int { return cmp.Or(o.Access.Limits().Connections, defaultConnections) }
	}
	s.await, s.witness = o.Broker.AwaitOpening, o.Broker.Witness
	s.registerRoutes(operations{
		broker: o.Broker, certificates: o.Certificates, renewals: newLimits(renewalRate, renewalBurst), costs: newLimits(costsRate, costsBurst), clock: s.opts.Clock,
		trust: s.trustDigest, draining: draining,
	},
		func(op operation) bool { return !op.enrolment })
	return s, nil
}

func newServer(o Options, name string) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Addr = cmp.Or(o.Addr, ":8443")
	files, err := pki.OpenFiles(o.CertDir, o.Clock.Now)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", name, err)
	}
	d, err := newDescription(v1.OpenAPI)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer, files)
	if err != nil {
		return nil, fmt.Errorf("%s server: %w", name, err)
	}
	s := &Server{
		opts:        o,
		name:        name,
		files:       files,
		description: d,
		limits:      newLimits(cmp.Or(o.Rate, defaultRate), cmp.Or(o.Burst, defaultBurst)),
		metrics:     m,
		drain:       func() {},
		await:       func(context.Context) {},
		witness:     func(string, string) {},

		maxConnections:    totalConnections,
		memberConnections: func() int { return defaultConnections },
	}
	d.admitBody = func(caller string, size int64) error { return s.limits.admitBody(caller, size, s.opts.Clock.Now()) }
	s.http = s.newHTTPServer()
	s.certificateProblem.Store("")
	return s, nil
}

func (s *Server) registerRoutes(o operations, wanted func(operation) bool) {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc(documentPattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.description.document) // an error means that the caller has gone
	})
	bridge := v1.NewStrictHandlerWithOptions(o, []v1.StrictMiddlewareFunc{explainDenial}, v1.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  refuseInvalid,
		ResponseErrorHandlerFunc: writeProblem,
	})
	v1.HandlerWithOptions(bridge, v1.StdHTTPServerOptions{
		BaseRouter:       routeFilter{s.mux, func(pattern string) bool { return wanted(s.description.operations[pattern]) }},
		Middlewares:      []v1.MiddlewareFunc{s.description.checkRequest},
		ErrorHandlerFunc: refuseInvalid,
	})
}

// routeFilter registers only some routes of the generated code.
type routeFilter struct {
	*http.ServeMux
	takes func(pattern string) bool
}

func (s routeFilter) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	if s.takes(pattern) {
		s.ServeMux.HandleFunc(pattern, handler)
	}
}

// refuseInvalid answers requests that the generated code could not decode.
func refuseInvalid(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, r, fault.New(fault.Invalid, "%v", err))
}

func (s *Server) newHTTPServer() *http.Server {
	tlsConfig := s.files.ServerTLS("h2", "http/1.1")
	return &http.Server{
		Handler:           http.HandlerFunc(s.serveRequest),
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
		ErrorLog: stdlog.New(connectionLog{s.opts.Log}, "", 0),
	}
}

// Start serves until ctx ends. Then it answers polls with 503 at once, and gives other requests shutdownGrace to
// finish.
func (s *Server) Start(ctx context.Context) error {
	listeners, err := s.openListeners(ctx)
	if err != nil {
		return err
	}
	served := make(chan error, len(listeners))
	for _, listener := range listeners {
		s.opts.Log.Info("serving the "+s.name+" API", "address", listener.Addr().String())
		go func() { served <- s.http.ServeTLS(netutil.LimitListener(listener, s.maxConnections), "", "") }()
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

func (s *Server) openListeners(ctx context.Context) ([]net.Listener, error) {
	front := s.opts.Listener
	if front == nil {
		var err error
		if front, err = new(net.ListenConfig).Listen(ctx, "tcp", s.opts.Addr); err != nil {
			return nil, fmt.Errorf("%s server: %w", s.name, err)
		}
	}
	if s.opts.Direct == nil {
		return []net.Listener{front}, nil
	}
	return []net.Listener{front, s.opts.Direct}, nil
}

// NeedLeaderElection returns false, because followers also serve.
func (*Server) NeedLeaderElection() bool { return false }

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	s.noteCertificates()
	return s.connections.beginConnection(ctx, c)
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateActive:
		s.recogniseCluster(c)
	case http.StateClosed, http.StateHijacked:
		s.connections.endConnection(c)
	}
}

// recogniseCluster counts a connection for its cluster right after the handshake, because a client may never send a
// request.
func (s *Server) recogniseCluster(c net.Conn) {
	secured, ok := c.(*tls.Conn)
	if !ok {
		return
	}
	certificates := secured.ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return
	}
	id, err := pki.ClusterID(certificates[0])
	if err != nil {
		return // the first request on this connection is refused
	}
	if most := s.memberConnections(); s.connections.joinCluster(c, id, most) {
		s.overBudget(id, "connections", fmt.Sprintf("member %q holds %d of %d connections; its oldest was closed", id, most, most))
	}
}

// noteCertificates logs once when replaced certificate files cannot be used, and once when such files are used again.
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
		s.opts.Log.Error(problem, "replaced certificate files cannot be used; the previous certificate stays in use")
		return
	}
	s.opts.Log.Info("replaced certificate files are in use")
}

// connectionLog receives the messages of net/http about failed connections, such as those without a certificate.
type connectionLog struct{ log logr.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.log.V(1).Info("connection refused", "cause", strings.TrimSpace(string(line)))
	return len(line), nil
}
