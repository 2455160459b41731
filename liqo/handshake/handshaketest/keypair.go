// Package handshaketest makes the keys, certificates and certificate requests of a cluster's
// Liqo for tests.
package handshaketest

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

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// KeyPair is the key pair of a cluster's Liqo. DER and PEM both hold the public key.
type KeyPair struct {
	Private ed25519.PrivateKey
	DER     []byte
	PEM     []byte
}

// NewKeyPair returns a new key pair.
func NewKeyPair(t *testing.T) KeyPair {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	runtest.Check(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	runtest.Check(t, err)
	return KeyPair{Private: private, DER: der, PEM: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
}

// Certificate returns a self-signed certificate for the key, in PEM. Its common name is the
// parameter as. It is valid at any time, because the checks under test compare only key and
// subject.
func (k KeyPair) Certificate(t *testing.T, as string) []byte {
	t.Helper()
	return k.CertificateFor(t, as, time.Unix(0, 0), time.Unix(1<<33, 0))
}

// CertificateFor returns a self-signed certificate for the key, in PEM. Its common name is
// the parameter as; from and to are the limits of its validity.
func (k KeyPair) CertificateFor(t *testing.T, as string, from, to time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: as, Organization: []string{"liqo.io"}},
		NotBefore: from, NotAfter: to,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Private.Public(), k.Private)
	runtest.Check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PrivatePEM returns the private key in the PEM form in which Liqo stores it.
func (k KeyPair) PrivatePEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(k.Private)
	runtest.Check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// EncodeRequest returns a certificate request in PEM, given in DER.
func EncodeRequest(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// Request returns a certificate request in PEM, made from a template and signed with the key.
func (k KeyPair) Request(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, k.Private)
	runtest.Check(t, err)
	return EncodeRequest(der)
}

// RequestFor returns a certificate request whose subject consists of the given names, in PEM
// and signed with the key.
func (k KeyPair) RequestFor(t *testing.T, names ...pkix.RelativeDistinguishedNameSET) []byte {
	t.Helper()
	raw, err := asn1.Marshal(pkix.RDNSequence(names))
	runtest.Check(t, err)
	return k.Request(t, &x509.CertificateRequest{RawSubject: raw})
}

// Identifiers of the attributes that a certificate request's subject may have.
var (
	OIDOrganisation = asn1.ObjectIdentifier{2, 5, 4, 10}
	OIDUnit         = asn1.ObjectIdentifier{2, 5, 4, 11}
	OIDCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// RDN returns one relative distinguished name of a subject, which consists of the given
// attributes.
func RDN(parts ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET { return parts }

// Part returns one attribute of a subject, for RDN.
func Part(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}
