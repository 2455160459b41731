// Package metrics says how a binary serves its metrics: in the clear, or over TLS to
// those who may read them.
package metrics

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

// Listener is where and to whom metrics are served.
type Listener struct {
	// Address to listen on; "0" for none.
	Address string
	// Secure serves over TLS, to callers whose token the API server knows (TokenReview)
	// and who may get the URL /metrics there (SubjectAccessReview).
	Secure bool
	// CertDir holds tls.crt and tls.key, which are reread when they change. Without it a
	// certificate that nobody has signed is made at every start. Only for Secure.
	CertDir string
}

// Bind adds the flags.
func (l *Listener) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&l.Address, "metrics-bind-address", l.Address, "address of /metrics; 0 turns it off")
	fs.BoolVar(&l.Secure, "metrics-secure", l.Secure, "serve /metrics over TLS, to callers whose token this cluster knows and who may get that URL")
	fs.StringVar(&l.CertDir, "metrics-cert-path", l.CertDir, "folder with tls.crt and tls.key for --metrics-secure; a self-signed certificate if unset")
}

// Options of the listener for controller-runtime. The error names the file that is
// missing, which controller-runtime would silently do without.
func (l Listener) Options() (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: l.Address}
	if !l.Secure {
		if l.CertDir != "" {
			return options, errors.New("--metrics-cert-path is given but metrics are served without TLS: add --metrics-secure")
		}
		return options, nil
	}
	if l.CertDir != "" {
		for _, name := range []string{pki.CertFile, pki.KeyFile} {
			if _, err := os.Stat(filepath.Join(l.CertDir, name)); err != nil {
				return options, fmt.Errorf("--metrics-cert-path: %w: put %s and %s there, or leave the flag out for a self-signed certificate",
					err, pki.CertFile, pki.KeyFile)
			}
		}
	}
	options.SecureServing, options.CertDir = true, l.CertDir
	options.FilterProvider = filters.WithAuthenticationAndAuthorization
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS13
		// Scrapes gain nothing from HTTP/2, which lets one connection ask for much at once.
		c.NextProtos = []string{"http/1.1"}
	}}
	return options, nil
}
