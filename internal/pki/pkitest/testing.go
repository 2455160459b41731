package pkitest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// New returns an authority as NewAuthority does. It fails the test on an error.
func New(t testing.TB, commonName string, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(commonName, now)
	runtest.Check(t, err)
	return a
}

// Parse returns a function that parses the result of Issue, IssueServer or
// IssueClient, and fails the test on an error.
func Parse(t testing.TB) func(pki.KeyPair, error) tls.Certificate {
	return func(pair pki.KeyPair, err error) tls.Certificate {
		t.Helper()
		runtest.Check(t, err)
		cert, err := pair.TLS()
		runtest.Check(t, err)
		return cert
	}
}
