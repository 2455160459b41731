package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// connection caches the last check of its certificate. The connection may outlive the certificate or the CA. So the
// chain is verified again at the first request after a change of the CA or an expiry.
type connection struct {
	// shut cancels every request on the connection with the given cause, then closes it.
	shut func(error)
	// raw is the connection below TLS.
	raw net.Conn
	// member is the cluster for which the connection is counted, "" for none. connections.mu guards it.
	member string

	// mu guards the following fields. HTTP/2 runs the requests of a connection concurrently.
	mu        sync.Mutex
	agentsCA  *x509.CertPool
	clusterID string
	// until is the first expiry in the certificate chain.
	until time.Time
	// leave tells the gate that the connection has ended; it is set once the gate has let the connection in. over is
	// set once the connection is closed.
	leave func()
	over  bool
}

type connectionKey struct{}

type vouchedKey struct{}

// Answer serves a request of clusterID that did not come over mTLS. The caller vouches for clusterID. In all other
// respects, the request is served like one that came over mTLS.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, clusterID string) {
	ctx, shut := context.WithCancelCause(r.Context())
	defer shut(nil)
	if s.opts.Access != nil {
		// If Enter refuses the cluster, serveRequest refuses the request.
		if leave, err := s.opts.Access.Enter(clusterID, shut); err == nil {
			defer leave()
		}
	}
	defer func() {
		// A handler panics with ErrAbortHandler to break off an answer. Usually net/http recovers from this panic, but
		// here net/http is not the caller. The reader of the answer notices that it is incomplete.
		p := recover()
		if err, ok := p.(error); p != nil && !(ok && errors.Is(err, http.ErrAbortHandler)) {
			panic(p)
		}
	}()
	s.serveRequest(w, r.WithContext(context.WithValue(ctx, vouchedKey{}, clusterID)))
}

// clusterOf returns the cluster that was vouched for, or the one named in r's certificate, if it takes part now.
func (s *Server) clusterOf(r *http.Request) (string, error) {
	if id, ok := r.Context().Value(vouchedKey{}).(string); ok {
		if s.opts.Access == nil {
			return id, nil
		}
		return id, s.opts.Access.Check(id)
	}
	credentials, err := s.files.Current()
	if err != nil {
		return "", err
	}
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return "", errors.New("request without a connection")
	}
	id, err := c.identifyCaller(r.TLS, credentials.AgentsCA, s.opts.Clock.Now())
	if err != nil || s.opts.Access == nil {
		return id, err
	}
	return id, c.enterGate(s.opts.Access, id)
}

// trustDigest returns the digest of the roots that agents must have.
func (s *Server) trustDigest() (string, error) {
	credentials, err := s.files.Current()
	if err != nil {
		return "", err
	}
	return credentials.TrustDigest(), nil
}

func (c *connection) identifyCaller(state *tls.ConnectionState, agentsCA *x509.CertPool, now time.Time) (string, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return "", fault.New(fault.Forbidden, "no client certificate")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agentsCA == agentsCA && now.Before(c.until) {
		return c.clusterID, nil
	}
	c.agentsCA = nil
	leaf := state.PeerCertificates[0]
	until, err := verifyChain(state.PeerCertificates, agentsCA, now)
	if err != nil {
		return "", fault.New(fault.Forbidden, "client certificate of %q: %v", leaf.Subject, err)
	}
	id, err := pki.ClusterID(leaf)
	if err != nil {
		return "", fault.New(fault.Forbidden, "client certificate of %q: %v", leaf.Subject, err)
	}
	c.agentsCA, c.clusterID, c.until = agentsCA, id, until
	return id, nil
}

func verifyChain(certificates []*x509.Certificate, roots *x509.CertPool, now time.Time) (time.Time, error) {
	chains, err := pki.VerifyChain(certificates, roots, now, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return time.Time{}, err
	}
	until := certificates[0].NotAfter
	for _, cert := range chains[0] {
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
	}
	return until, nil
}
