package server

import (
	"cmp"
	"context"
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
	// shutdownGrace is what requests under way get to end; polls end at once. It is
	// less than what the manager waits for the server.
	shutdownGrace = 8 * time.Second
)

const (
	documentPath    = "/openapi.json"
	documentPattern = http.MethodGet + " " + documentPath
)

// Options of a Server. Broker and CertDir are required.
type Options struct {
	// Addr to listen on, ":8443" if empty.
	Addr string
	// Listener is used in place of Addr if it is set; the server closes it.
	Listener net.Listener
	// CertDir holds the server's certificate and the CA of agents as pki.Files reads
	// them. Replaced files are in use from the next connection on, a replaced CA from
	// the next request on.
	CertDir string
	// Broker decides.
	Broker Broker
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

// Server is the REST API as a runnable of a controller-runtime manager.
type Server struct {
	addr     string
	listener net.Listener
	files    *pki.Files
	log      logr.Logger
	clock    clock.PassiveClock

	description *description
	limits      *limits
	metrics     *metrics
	mux         *http.ServeMux
	http        *http.Server
	drain       context.CancelFunc
	// certificateProblem is the one that was logged last.
	certificateProblem atomic.Value
}

// New checks options and reads certificates; nothing runs before Start.
func New(o Options) (*Server, error) {
	if o.Broker == nil {
		return nil, errors.New("REST server without a broker")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	files, err := pki.OpenFiles(o.CertDir, o.Clock.Now)
	if err != nil {
		return nil, fmt.Errorf("REST server: %w", err)
	}
	d, err := newDescription(v1.OpenAPI)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("REST server: %w", err)
	}
	draining, drain := context.WithCancel(context.Background())
	s := &Server{
		addr:        cmp.Or(o.Addr, ":8443"),
		listener:    o.Listener,
		files:       files,
		log:         o.Log,
		clock:       o.Clock,
		description: d,
		limits:      newLimits(cmp.Or(o.Rate, defaultRate), cmp.Or(o.Burst, defaultBurst)),
		metrics:     m,
		drain:       drain,
	}
	s.mux = s.routes(operations{broker: o.Broker, draining: draining})
	s.http = s.newHTTPServer()
	s.certificateProblem.Store("")
	return s, nil
}

func (s *Server) routes(o operations) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc(documentPattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.description.document) // the caller may have gone
	})
	bridge := v1.NewStrictHandlerWithOptions(o, nil, v1.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  refuseInvalid,
		ResponseErrorHandlerFunc: refuse,
	})
	v1.HandlerWithOptions(bridge, v1.StdHTTPServerOptions{
		BaseRouter:       mux,
		Middlewares:      []v1.MiddlewareFunc{s.description.check},
		ErrorHandlerFunc: refuseInvalid,
	})
	return mux
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
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:          stdlog.New(connectionLog{s.log}, "", 0),
	}
}

// Start serves until ctx ends. Polls under way are then answered at once with 503,
// other requests may finish.
func (s *Server) Start(ctx context.Context) error {
	listener := s.listener
	if listener == nil {
		var err error
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.addr); err != nil {
			return fmt.Errorf("REST server: %w", err)
		}
	}
	s.log.Info("REST API is served", "address", listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- s.http.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		s.drain()
		return fmt.Errorf("REST server: %w", err)
	case <-ctx.Done():
	}
	s.drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if stopped := <-served; err == nil && !errors.Is(stopped, http.ErrServerClosed) {
		err = fmt.Errorf("REST server: %w", stopped)
	}
	return err
}

// NeedLeaderElection is false: followers serve too.
func (*Server) NeedLeaderElection() bool { return false }

func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	s.noteCertificates()
	return withConnection(ctx, c)
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
