package handshake

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// maxSigningRequest is the largest accepted certificate request in bytes. It is checked before
// the request is parsed. A request with an RSA key of 16384 bits is smaller.
const maxSigningRequest = 8 << 10

const signingRequestHeader = "-----BEGIN CERTIFICATE REQUEST-----"

// Subject is the subject of a certificate in Liqo: one group and one user.
type Subject struct{ Organisation, CommonName string }

func (s Subject) name() pkix.Name {
	return pkix.Name{Organization: []string{s.Organisation}, CommonName: s.CommonName}
}

func (s Subject) String() string { return s.name().String() }

// CheckSigningRequest returns an error unless csr is a single PEM block, with nothing around it,
// and holds a certificate request for exactly the subject want, without extensions or
// attributes, signed by its own key.
//
// The check is strict because Liqo compares only the first organisation and the last common
// name, while the cluster's signer makes a group of every organisation.
func CheckSigningRequest(csr []byte, want Subject) error {
	request, err := ParseSigningRequest(csr)
	if err != nil {
		return err
	}
	expected, err := asn1.Marshal(want.name().ToRDNSequence())
	if err != nil {
		return fmt.Errorf("subject %q: %w", want, err)
	}
	if !bytes.Equal(request.RawSubject, expected) {
		return fmt.Errorf("its subject is %q, want exactly %q", Shorten(request.Subject.String()), want)
	}
	if len(request.Extensions) > 0 {
		return fmt.Errorf("it asks for extension %v, want none", request.Extensions[0].Id)
	}
	if err := checkNoAttributes(request.RawTBSCertificateRequest); err != nil {
		return err
	}
	if err := request.CheckSignature(); err != nil {
		return fmt.Errorf("it is not signed by its own key: %w", err)
	}
	return nil
}

// ParseSigningRequest reads one certificate request of bounded size.
func ParseSigningRequest(csr []byte) (*x509.CertificateRequest, error) {
	if len(csr) > maxSigningRequest {
		return nil, fmt.Errorf("it has %d bytes, at most %d are accepted", len(csr), maxSigningRequest)
	}
	block, rest := pem.Decode(csr)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers) > 0 {
		return nil, errors.New("it is not a CERTIFICATE REQUEST in PEM form")
	}
	if !bytes.HasPrefix(csr, []byte(signingRequestHeader)) || len(rest) > 0 {
		return nil, errors.New("there is more than one PEM block in it")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// checkNoAttributes refuses every attribute. It parses the request itself, because Go exposes
// only the attributes that it knows.
func checkNoAttributes(rawTBS []byte) error {
	var tbs struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0,optional"`
	}
	rest, err := asn1.Unmarshal(rawTBS, &tbs)
	if err != nil {
		return fmt.Errorf("it cannot be parsed: %w", err)
	}
	if len(rest) > 0 || len(tbs.Attributes) > 0 {
		return errors.New("it carries attributes, want none")
	}
	return nil
}

// Shorten truncates a peer's text for messages and logs.
func Shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
