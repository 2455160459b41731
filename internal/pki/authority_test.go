package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

// testTime is the current time of these tests.
var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := NewAuthority("test", testTime)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issued(t testing.TB, a *Authority, template *x509.Certificate) tls.Certificate {
	t.Helper()
	return parsed(t)(a.Issue(template))
}

func parsed(t testing.TB) func(KeyPair, error) tls.Certificate {
	return func(pair KeyPair, err error) tls.Certificate {
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

func TestAuthorityIssuesServerAndClientCertificates(t *testing.T) {
	a := newAuthority(t)
	server := parsed(t)(a.IssueServer([]string{"broker.example"}, []net.IP{net.IPv4(127, 0, 0, 1)})).Leaf
	client := parsed(t)(a.IssueClient("rome", "fluidos.eu")).Leaf

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
				Roots: a.Pool(), CurrentTime: testTime, DNSName: opts.host, KeyUsages: []x509.ExtKeyUsage{opts.usage},
			})
			if (err == nil) != opts.good {
				t.Errorf("Verify: %v; want good %v", err, opts.good)
			}
		})
	}
	if id, err := ClusterID(client); id != "rome" || err != nil {
		t.Errorf("ClusterID = %q, %v; want rome", id, err)
	}
	if _, err := a.IssueClient("Rome", ""); err == nil {
		t.Error("a name that is no cluster ID was certified")
	}
}

func TestLoadAuthorityReadsSavedAuthority(t *testing.T) {
	dir := t.TempDir()
	if err := newAuthority(t).Save(dir); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAuthority(dir, testTime)
	if err != nil {
		t.Fatal(err)
	}
	leaf := parsed(t)(a.IssueClient("rome", "")).Leaf
	opts := x509.VerifyOptions{Roots: a.Pool(), CurrentTime: testTime, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := leaf.Verify(opts); err != nil {
		t.Errorf("certificate of the loaded authority: %v", err)
	}
	if _, err := LoadAuthority(t.TempDir(), testTime); err == nil {
		t.Error("an authority was loaded from an empty directory")
	}
}
