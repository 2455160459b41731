// Package listener configures the metrics endpoint of a program (plain HTTP, or TLS for authorized
// callers only) and its web console.
package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Metrics configures where metrics are served, and to whom.
type Metrics struct {
	// Address is the address to listen on; "0" turns metrics off.
	Address string
	// Secure turns on TLS and authorization. Callers then need a token that a TokenReview accepts,
	// and the right to get the URL /metrics, which a SubjectAccessReview checks.
	Secure bool
	// CertDir is the folder with the files tls.crt and tls.key, which are read again when they
	// change. If it is empty, the endpoint makes a self-signed certificate at every start. It is used
	// only if Secure is set.
	CertDir string
}

// Bind adds the flags for these options.
func (m *Metrics) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&m.Address, "metrics-bind-address", m.Address, "address of the metrics endpoint; 0 turns it off")
	fs.BoolVar(&m.Secure, "metrics-secure", m.Secure, "serve /metrics over TLS, to callers whose token may get that URL")
	fs.StringVar(&m.CertDir, "metrics-cert-path", m.CertDir, "folder with tls.crt and tls.key for --metrics-secure (default self-signed)")
}

// Options returns the settings for controller-runtime's metrics server. It returns an error if a
// certificate file is missing, because controller-runtime would then silently use a self-signed
// certificate.
func (m Metrics) Options() (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: m.Address, FilterProvider: serveExemplars(nil)}
	if !m.Secure {
		if m.CertDir != "" {
			return options, errors.New("--metrics-cert-path is given but metrics are served without TLS: add --metrics-secure")
		}
		return options, nil
	}
	if m.CertDir != "" {
		for _, name := range []string{pki.CertFile, pki.KeyFile} {
			if _, err := os.Stat(filepath.Join(m.CertDir, name)); err != nil {
				return options, fmt.Errorf("--metrics-cert-path: %w: put %s and %s there, or leave the flag out for a self-signed certificate",
					err, pki.CertFile, pki.KeyFile)
			}
		}
	}
	options.SecureServing, options.CertDir = true, m.CertDir
	options.FilterProvider = serveExemplars(filters.WithAuthenticationAndAuthorization)
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS13
		// HTTP/2 is off, because it has no benefit for scraping and would let one connection open many
		// requests.
		c.NextProtos = []string{"http/1.1"}
	}}
	return options, nil
}

// filterProvider is the type of metricsserver.Options.FilterProvider.
type filterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error)

// serveExemplars returns a filter that ignores controller-runtime's metrics handler and serves the
// same metrics in the OpenMetrics format, because only this format contains exemplars. If next is
// not nil, its filter protects the new handler.
func serveExemplars(next filterProvider) filterProvider {
	return func(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		protect := func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return handler, nil }
		if next != nil {
			var err error
			if protect, err = next(config, client); err != nil {
				return nil, err
			}
		}
		return func(log logr.Logger, _ http.Handler) (http.Handler, error) {
			return protect(log, promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4}))
		}, nil
	}
}
