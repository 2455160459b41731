package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestAuthorityIsKeptAndItsCertificatesVerify(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, err := Open(dir, "rome", func() time.Time { return now })
	runtest.Check(t, err)
	years := now.AddDate(3, 0, 0)
	kept, err := Open(dir, "rome", func() time.Time { return years })
	runtest.Check(t, err)
	if !bytes.Equal(first.PEM(), kept.PEM()) {
		t.Error("the second Open made another authority")
	}

	tests := map[string]struct {
		subject Subject
		usage   x509.ExtKeyUsage
		host    string
	}{
		"client":            {Subject{CommonName: "admin", Organizations: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth, ""},
		"server by name":    {Subject{CommonName: "api", Hosts: []string{"localhost"}}, x509.ExtKeyUsageServerAuth, "localhost"},
		"server by address": {Subject{CommonName: "api", Hosts: []string{"127.0.0.1"}}, x509.ExtKeyUsageServerAuth, "127.0.0.1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			certFile, keyFile, err := kept.IssueFiles(dir, "leaf", test.subject)
			runtest.Check(t, err)
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			runtest.Check(t, err)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(first.PEM())
			_, err = pair.Leaf.Verify(x509.VerifyOptions{
				Roots: roots, CurrentTime: years, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
