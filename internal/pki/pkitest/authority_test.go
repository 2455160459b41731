package pkitest

import (
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestAuthorityIssuesServerAndClientCertificates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a, err := NewAuthority("test", now)
	runtest.Check(t, err)
	leaf := func(pair pki.KeyPair, err error) *x509.Certificate {
		t.Helper()
		runtest.Check(t, err)
		parsed, err := pair.TLS()
		runtest.Check(t, err)
		return parsed.Leaf
	}
	server := leaf(a.IssueServer([]string{"broker.example"}, []net.IP{net.IPv4(127, 0, 0, 1)}))
	client := leaf(a.IssueClient("rome", "fluidos.eu"))

	for name, opts := range map[string]struct {
		leaf  *x509.Certificate
		host  string
		usage x509.ExtKeyUsage
		good  bool
	}{
		"server by name":                   {server, "broker.example", x509.ExtKeyUsageServerAuth, true},
		"server by address":                {server, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		"server by another name":           {server, "other.example", x509.ExtKeyUsageServerAuth, false},
		"server is no client":              {server, "", x509.ExtKeyUsageClientAuth, false},
		"client":                           {client, "", x509.ExtKeyUsageClientAuth, true},
		"client is no server":              {client, "", x509.ExtKeyUsageServerAuth, false},
		"client is no server under its CN": {client, "rome", x509.ExtKeyUsageClientAuth, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := opts.leaf.Verify(x509.VerifyOptions{
				Roots: a.Pool(), CurrentTime: now, DNSName: opts.host, KeyUsages: []x509.ExtKeyUsage{opts.usage},
			})
			if (err == nil) != opts.good {
				t.Errorf("Verify: %v; want good %v", err, opts.good)
			}
		})
	}
	if id, err := pki.ClusterID(client); id != "rome" || err != nil {
		t.Errorf("ClusterID = %q, %v; want rome", id, err)
	}
	if _, err := a.IssueClient("Rome", ""); err == nil {
		t.Error("a name that is no cluster ID was certified")
	}
}
