package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
)

// testTime is the current time of these tests.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t testing.TB) *pkitest.Authority {
	t.Helper()
	a, err := pkitest.NewAuthority("test", testTime)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issued(t testing.TB, a *pkitest.Authority, template *x509.Certificate) tls.Certificate {
	t.Helper()
	return parsed(t)(a.Issue(template))
}

func parsed(t testing.TB) func(pki.KeyPair, error) tls.Certificate {
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
