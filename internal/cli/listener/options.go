// Package listener configures the metrics endpoint of a binary: plain HTTP, or TLS for
// authorized callers.
package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Metrics configures where metrics are served, and to whom.
type Metrics struct {
	// Address to listen on; "0" turns metrics off.
	Address string
	// Secure serves over TLS, only to callers whose token passes a TokenReview and whose
	// SubjectAccessReview allows get on the URL /metrics.
	Secure bool
	// CertDir holds tls.crt and tls.key, which are reread when they change. If empty, the listener
	// makes a self-signed certificate at every start. Only used with Secure.
	CertDir string
}

// Bind adds the flags.
func (m *Metrics) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&m.Address, "metrics-bind-address", m.Address, "address of the metrics endpoint; 0 turns it off")
	fs.BoolVar(&m.Secure, "metrics-secure", m.Secure, "serve /metrics over TLS, only to callers with a valid token of this cluster and the right to get that URL")
	fs.StringVar(&m.CertDir, "metrics-cert-path", m.CertDir, "directory with tls.crt and tls.key for --metrics-secure; if unset, the certificate is self-signed")
}

// Options returns the listener's settings for controller-runtime. The error names a missing
// file; controller-runtime would silently fall back to a self-signed certificate.
func (m Metrics) Options() (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: m.Address}
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
	options.FilterProvider = filters.WithAuthenticationAndAuthorization
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS13
		// HTTP/2 gives a scraper nothing, and lets one connection open many requests.
		c.NextProtos = []string{"http/1.1"}
	}}
	return options, nil
}
