package enrolment

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	requestBlock = "CERTIFICATE REQUEST"
	minRSABits   = 2048
	// maxRSABits is the size of the largest accepted RSA key, to bound the cost of checking a
	// signature.
	maxRSABits = 8192
)

var (
	oidCommonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidExtensionRequest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}
	oidAlternativeName  = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// tagURI is the ASN.1 tag of a URI in a subject alternative name (uniformResourceIdentifier).
const tagURI = 6

// Request is a validated certificate signing request.
type Request struct {
	ClusterID string
	// PEM is the request in PEM form, without any text around it.
	PEM []byte
	// Fingerprint is the fingerprint of the request's key; see pki.SPKIHash.
	Fingerprint string
}

// URIOf returns the URI that the certificate of a cluster contains as its subject alternative
// name.
func URIOf(trustDomain, clusterID string) string {
	return "spiffe://" + trustDomain + "/cluster/" + clusterID
}

// CheckRequest parses and validates a certificate signing request in PEM form. Its errors have
// reason fault.InvalidCSR and say what to change. Issuers differ in what they copy from a
// request into the certificate. Therefore CheckRequest compares the attributes byte by byte
// with the only ones that it allows.
func CheckRequest(text, clusterID, trustDomain string) (*Request, error) {
	if !pki.ValidClusterID(clusterID) {
		return nil, fault.New(fault.InvalidCSR, "cluster ID %q: want a lower-case DNS label of at most %d characters", clusterID, pki.MaxClusterIDLength)
	}
	der, err := decodeRequest(text)
	if err != nil {
		return nil, fault.New(fault.InvalidCSR, "csr: %v", err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fault.New(fault.InvalidCSR, "csr: cannot be parsed: %v", err)
	}
	if err := cmp.Or(checkKey(csr), checkSubject(csr, clusterID), checkAttributes(csr, URIOf(trustDomain, clusterID))); err != nil {
		return nil, fault.New(fault.InvalidCSR, "csr: %v", err)
	}
	return &Request{
		ClusterID:   clusterID,
		PEM:         pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}),
		Fingerprint: pki.SPKIHash(csr.RawSubjectPublicKeyInfo),
	}, nil
}

func decodeRequest(text string) ([]byte, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New("is not in PEM form")
	case block.Type != requestBlock:
		return nil, fmt.Errorf("is a PEM block %q, want %q", block.Type, requestBlock)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("has trailing data")
	}
	return block.Bytes, nil
}

// checkKey checks the request's key and signature. It checks the size of the key first, because
// a signature with a huge key takes long to check.
func checkKey(csr *x509.CertificateRequest) error {
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return fmt.Errorf("key is on curve %s: want P-256 or P-384", key.Curve.Params().Name)
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("RSA key of %d bits: want %d to %d", bits, minRSABits, maxRSABits)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("key is neither ECDSA, Ed25519 nor RSA")
	}
	if err := csr.CheckSignature(); err != nil {
		return fmt.Errorf("signature does not match its key: %w", err)
	}
	return nil
}

func checkSubject(csr *x509.CertificateRequest, clusterID string) error {
	names := csr.Subject.Names
	if len(names) != 1 || !names[0].Type.Equal(oidCommonName) {
		return fmt.Errorf("subject %q: want only the common name %q", csr.Subject, clusterID)
	}
	if name, ok := names[0].Value.(string); !ok || name != clusterID {
		return fmt.Errorf("common name %q: want the cluster ID, %q", names[0].Value, clusterID)
	}
	return nil
}

// tbsRequest is the signed part of a request, CertificationRequestInfo in RFC 2986.
type tbsRequest struct {
	Version    int
	Subject    asn1.RawValue
	PublicKey  asn1.RawValue
	Attributes []asn1.RawValue `asn1:"tag:0,set"`
}

// checkAttributes returns an error unless the request has exactly one attribute: the extension
// request for a subject alternative name with this URI.
func checkAttributes(csr *x509.CertificateRequest, uri string) error {
	var tbs tbsRequest
	if rest, err := asn1.Unmarshal(csr.RawTBSCertificateRequest, &tbs); err != nil || len(rest) > 0 {
		return errors.New("cannot be parsed")
	}
	switch len(tbs.Attributes) {
	case 1:
	case 0:
		return fmt.Errorf("has no subject alternative name: want the URI %q", uri)
	default:
		return fmt.Errorf("has %d attributes: want only the extension request", len(tbs.Attributes))
	}
	for _, critical := range []bool{false, true} {
		wanted, err := attributeOf(uri, critical)
		if err != nil {
			return err
		}
		if bytes.Equal(tbs.Attributes[0].FullBytes, wanted) {
			return nil
		}
	}
	return fmt.Errorf("asks for %s: want one extension, a subject alternative name with only the URI %q", summarizeRequest(csr), uri)
}

type (
	extension struct {
		ID       asn1.ObjectIdentifier
		Critical bool `asn1:"optional"`
		Value    []byte
	}
	attribute struct {
		ID     asn1.ObjectIdentifier
		Values [][]extension `asn1:"set"`
	}
)

// attributeOf returns the DER encoding of the only attribute that checkAttributes allows: it requests
// the URI as the only name of the certificate, in an extension that is marked as critical or not.
func attributeOf(uri string, critical bool) ([]byte, error) {
	names, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte(uri)}})
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(attribute{
		ID:     oidExtensionRequest,
		Values: [][]extension{{{ID: oidAlternativeName, Critical: critical, Value: names}}},
	})
}

// summarizeRequest lists the extensions and names in a request that Go can parse.
func summarizeRequest(csr *x509.CertificateRequest) string {
	var extensions []string
	for _, e := range csr.Extensions {
		extensions = append(extensions, e.Id.String())
	}
	return fmt.Sprintf("extensions %q with URIs %q, DNS names %q, addresses %q, e-mail addresses %q",
		extensions, csr.URIs, csr.DNSNames, csr.IPAddresses, csr.EmailAddresses)
}
