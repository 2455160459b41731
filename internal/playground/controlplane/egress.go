package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// egress is the proxy through which the API server calls webhooks. It translates the cluster addresses of Services,
// which do not exist on this machine, to loopback addresses.
type egress struct {
	mu     sync.Mutex        // guards routes
	routes map[string]string // from cluster address to loopback address, both with ports
}

// egressTimeout is how long a connection from the API server may take to open.
const egressTimeout = 2 * time.Second

// Route redirects the API server's connections: to reach the address from, it connects to the address to. Both contain
// a port. Route requires Options.RealPods.
func (c *ControlPlane) Route(from, to string) {
	c.egress.mu.Lock()
	defer c.egress.mu.Unlock()
	c.egress.routes[from] = to
}

// startEgress serves the proxy until the control plane stops. It returns the path of the API server's configuration for
// the proxy. A restarted API server uses the same proxy.
func (c *ControlPlane) startEgress() (string, error) {
	config := c.path("egress.yaml")
	if c.egress != nil {
		return config, nil
	}
	// The path of a socket may have at most 107 bytes. In many checkouts, paths in the state folder are longer.
	dir, err := os.MkdirTemp("", "egress")
	if err != nil {
		return "", err
	}
	socket := filepath.Join(dir, "socket")
	listener, err := (&net.ListenConfig{}).Listen(c.lifetime, "unix", socket)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	c.egress = &egress{routes: map[string]string{}}
	server := &http.Server{Handler: c.egress, ReadHeaderTimeout: egressTimeout}
	context.AfterFunc(c.lifetime, func() { _, _ = server.Close(), os.RemoveAll(dir) }) // nothing needs them then
	go func() { _ = server.Serve(listener) }()                                         // until it is closed
	return config, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %q}}
`, socket), 0o644)
}

// targetOf returns the address to connect to instead of an address that the API server asks for; the same address if
// there is no route for it.
func (e *egress) targetOf(address string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if to, ok := e.routes[address]; ok {
		return to
	}
	return address
}

// ServeHTTP implements http.Handler. It opens the tunnel for a CONNECT request.
func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), egressTimeout)
	defer cancel()
	there, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.targetOf(r.Host))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close() //nolint:errcheck // the other end is gone, so an error does not matter
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer here.Close() //nolint:errcheck // the other end is gone, so an error does not matter
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		defer there.Close()         //nolint:errcheck // it ends the other direction
		_, _ = io.Copy(there, here) // a broken connection ends like a closed one
	}()
	_, _ = io.Copy(here, there)
}
