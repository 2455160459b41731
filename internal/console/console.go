package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Limits of the HTTP server.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	writeTimeout   = 30 * time.Second
	maxHeaderBytes = 32 << 10
	shutdownGrace  = 3 * time.Second
)

// Options configure a console.
type Options struct {
	// Address is the address to listen on, for example ":8446".
	Address string
	// Certificate returns the current certificate of the server. The key of the session cookies is derived from its
	// private key.
	Certificate func() (*tls.Certificate, error)
	// Cache contains the informers whose objects the pages show.
	Cache cache.Cache
	// Config connects to the API server. The console asks it to review tokens and rights.
	Config *rest.Config
	// Broker is true if the cluster has the kinds of a broker, Member if it has those of a member.
	Broker, Member bool
	// Name is the displayed name of the cluster. Version is the displayed version of the program.
	Name, Version string
	// Used returns what the pods of each placement in this cluster request, by the name of the placement. It returns nil
	// if that is unknown. The option is nil in a console without placements.
	Used func() map[string]quantity.Amounts
	// Actions lets users change objects with their own rights.
	Actions bool
	// Now returns the current time.
	Now func() time.Time
	Log logr.Logger
}

// Server is the console's HTTP server. It is a Runnable of the manager.
type Server struct {
	opts Options
	http *http.Server
}

// New returns a console, and adds the informers that its pages need to the cache. They start with the manager.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Certificate == nil || o.Cache == nil || o.Config == nil || o.Now == nil {
		return nil, errors.New("console: an option is missing")
	}
	objects := &informedObjects{cache: o.Cache, broker: o.Broker, member: o.Member, name: o.Name, now: o.Now}
	if err := objects.watchKinds(ctx, o.Cache, view.KindsOf(o.Broker, o.Member)); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	reviews, err := newReviewer(o.Config)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	s := &Server{opts: o}
	s.http = newHTTPServer(newHandler(&site{
		objects: objects, reviews: reviews, users: userReader(o.Config), authenticator: &sessions{key: sessionKey(o.Certificate), now: o.Now},
		broker: o.Broker, member: o.Member, name: o.Name, version: o.Version, used: o.Used, actions: o.Actions, now: o.Now, log: o.Log,
	}))
	s.http.Addr, s.http.TLSConfig = o.Address, serverTLS(o.Certificate)
	return s, nil
}

func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(io.Discard, "", 0), // otherwise strangers could fill the log with failed handshakes
	}
}

// serverTLS returns the TLS settings. They do not ask for client certificates, because browsers would then ask the
// user for one.
func serverTLS(certificate func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
}

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.opts.Address)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	s.opts.Log.Info("serving the console", "address", listener.Addr().String())
	return serveUntilDone(ctx, s.http, func() error { return s.http.ServeTLS(listener, "", "") })
}

// serveUntilDone runs serve until ctx ends. Then it ends all streams at once and lets other requests finish, for up to
// shutdownGrace.
func serveUntilDone(ctx context.Context, server *http.Server, serve func() error) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	served := make(chan error, 1)
	go func() { served <- serve() }()
	select {
	case err := <-served:
		return fmt.Errorf("console: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}

// NeedLeaderElection returns false: every replica serves the console from its own informers.
func (*Server) NeedLeaderElection() bool { return false }
