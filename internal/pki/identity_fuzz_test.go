package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// FuzzClusterID: an accepted certificate has exactly one common name, a valid cluster ID, and
// no other name that contradicts it.
func FuzzClusterID(f *testing.F) {
	authority := pkitest.New(f, "agents", time.Now())
	pair, err := authority.IssueClient("rome", "cluster.local")
	runtest.Check(f, err)
	real, err := pair.TLS()
	runtest.Check(f, err)
	f.Add(real.Certificate[0], "rome", "spiffe://cluster.local/cluster/rome", true)
	f.Add([]byte{}, "rome", "", true)
	f.Add([]byte{0x30, 0x82}, "Rome", "spiffe://cluster.local/cluster/Rome", true)
	f.Add([]byte{}, "rome\x00", "spiffe://cluster.local/cluster/paris", false)
	f.Add([]byte{}, "rome.", "spiffe://user@cluster.local:1/cluster/rome?x#y", true)
	f.Add([]byte{}, "", "spiffe:///cluster/", true)
	f.Fuzz(func(t *testing.T, der []byte, name, uri string, client bool) {
		if parsed, err := x509.ParseCertificate(der); err == nil {
			checkIdentity(t, parsed)
		}
		made := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{
			Names: []pkix.AttributeTypeAndValue{{Type: pki.OIDCommonName, Value: name}}, CommonName: name,
		}}
		if client {
			made.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		if parsed, err := url.Parse(uri); err == nil && uri != "" {
			made.URIs = []*url.URL{parsed}
		}
		checkIdentity(t, made)
	})
}

func checkIdentity(t *testing.T, cert *x509.Certificate) {
	t.Helper()
	id, err := pki.ClusterID(cert)
	if err != nil {
		if id != "" {
			t.Errorf("%v, and still it speaks for %q", err, id)
		}
		return
	}
	if !pki.ValidClusterID(id) || id != cert.Subject.CommonName || cert.IsCA {
		t.Errorf("%+v speaks for %q", cert.Subject, id)
	}
	for _, uri := range cert.URIs {
		if !strings.HasSuffix(uri.String(), "/cluster/"+id) || uri.Scheme != "spiffe" {
			t.Errorf("%q speaks for %q", uri, id)
		}
	}
}

// FuzzParseBundle: every accepted bundle survives encoding and parsing.
func FuzzParseBundle(f *testing.F) {
	for range 2 {
		authority := pkitest.New(f, "servers", time.Now())
		f.Add(authority.CertPEM())
		f.Add(append(authority.CertPEM(), authority.CertPEM()...))
	}
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))
	f.Fuzz(func(t *testing.T, content []byte) {
		certs, err := pki.ParseBundle(content)
		if err != nil {
			return
		}
		again, err := pki.ParseBundle(pki.EncodeBundle(certs))
		runtest.Check(t, err)
		if diff := cmp.Diff(pki.TrustDigest(certs, nil), pki.TrustDigest(again, nil)); diff != "" || len(again) != len(certs) {
			t.Errorf("(-read +read again):\n%s", diff)
		}
	})
}
