package handshake

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxSigningRequest is the size in bytes of the largest certificate request that is parsed. A
// request with an RSA key of 16384 bits is smaller.
const maxSigningRequest = 8 << 10

const signingRequestHeader = "-----BEGIN CERTIFICATE REQUEST-----"

// Subject is the subject of a certificate that Liqo uses: exactly one organisation, which is the
// user's group, and one common name, which is the user.
type Subject struct{ Organisation, CommonName string }

func (s Subject) name() pkix.Name {
	return pkix.Name{Organization: []string{s.Organisation}, CommonName: s.CommonName}
}

func (s Subject) String() string { return s.name().String() }

// CheckSigningRequest returns an error unless csr is one PEM block with nothing around it, and
// contains an acceptable certificate request. Such a request has exactly the subject want, has
// no extensions or attributes, and is signed by its own key.
//
// The check is strict because Liqo compares only the first organisation and the last common
// name, whereas the signer of Kubernetes makes the user a member of every organisation.
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
		return fmt.Errorf("its subject is %q, want exactly %q", message.Clip(request.Subject.String(), MaxQuoted), want)
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

// ParseSigningRequest parses a certificate request in PEM. It returns an error if the request is
// larger than maxSigningRequest, or if anything else is in csr.
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

// checkNoAttributes parses the request itself, because Go's parser reports only attributes that it knows.
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

// MaxQuoted limits the length of a text of a peer in messages and logs.
const MaxQuoted = 200
