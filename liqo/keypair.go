package liqo

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// keyPair is what a cluster's Liqo holds.
type keyPair struct {
	private ed25519.PrivateKey
	der     []byte
	pem     []byte
}

func newKeyPair(t *testing.T) keyPair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{private: private, der: der, pem: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
}

// certificate for the key, signed by itself: what is checked here is whose it is.
func (k keyPair) certificate(t *testing.T, as string) []byte {
	t.Helper()
	return k.certificateFor(t, as, time.Unix(0, 0), time.Unix(1<<33, 0))
}

func (k keyPair) certificateFor(t *testing.T, as string, from, to time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: as, Organization: []string{"liqo.io"}},
		NotBefore: from, NotAfter: to,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.private.Public(), k.private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (k keyPair) privatePEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func encodeRequest(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (k keyPair) request(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, k.private)
	if err != nil {
		t.Fatal(err)
	}
	return encodeRequest(der)
}

// requestFor makes a request with a subject of these relative names.
func (k keyPair) requestFor(t *testing.T, names ...pkix.RelativeDistinguishedNameSET) []byte {
	t.Helper()
	raw, err := asn1.Marshal(pkix.RDNSequence(names))
	if err != nil {
		t.Fatal(err)
	}
	return k.request(t, &x509.CertificateRequest{RawSubject: raw})
}

var (
	oidOrganisation = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidUnit         = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
)

func rdn(parts ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET { return parts }

func part(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}
