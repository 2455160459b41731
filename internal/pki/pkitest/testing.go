package pkitest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// New is NewAuthority for tests.
func New(t testing.TB, commonName string, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(commonName, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Parse returns a function that takes the result of an Issue and parses the pair.
func Parse(t testing.TB) func(pki.KeyPair, error) tls.Certificate {
	return func(pair pki.KeyPair, err error) tls.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		cert, err := pair.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
}
