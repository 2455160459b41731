package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
)

// testTime is the current time of these tests.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t testing.TB) *pkitest.Authority {
	t.Helper()
	return pkitest.New(t, "test", testTime)
}

func issued(t testing.TB, a *pkitest.Authority, template *x509.Certificate) tls.Certificate {
	t.Helper()
	return pkitest.Parse(t)(a.Issue(template))
}
