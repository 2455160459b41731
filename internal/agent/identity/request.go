package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const requestBlock = "CERTIFICATE REQUEST"

// Request is a certificate signing request with its private key.
type Request struct {
	// KeyPEM is the private key as PKCS #8 in PEM form.
	KeyPEM []byte
	// PEM is the request as PKCS #10 in PEM form. Exactly these bytes must be sent in every attempt: a
	// new signature would make it a different request.
	PEM []byte
	// ClusterID and TrustDomain are parsed from the request.
	ClusterID, TrustDomain string
	// Fingerprint is the fingerprint of the public key; see pki.SPKIHash. The broker's administrator
	// compares it before approving the cluster.
	Fingerprint string
}

// NewRequest creates an ECDSA P-256 key and a certificate signing request for a cluster.
func NewRequest(clusterID, trustDomain string) (*Request, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: clusterID},
		URIs:    []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: "/cluster/" + clusterID}},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("certificate signing request of cluster %q: %w", clusterID, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("private key cannot be encoded")
	}
	return parseRequest(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}),
	)
}

func readRequest(data map[string][]byte) (*Request, error) {
	key, request := data[pendingKeyEntry], data[pendingRequestEntry]
	if len(key) == 0 && len(request) == 0 {
		return nil, nil
	}
	r, err := parseRequest(key, request)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", pendingKeyEntry, pendingRequestEntry, err)
	}
	return r, nil
}

// parseRequest parses a key and its request, and checks that they belong together. Its errors never
// contain parts of the key.
func parseRequest(keyPEM, requestPEM []byte) (*Request, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(requestPEM)
	if block == nil || block.Type != requestBlock || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("not a certificate signing request in PEM form")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate signing request: %w", err)
	}
	public, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(key.Public()) || request.CheckSignature() != nil {
		return nil, errors.New("certificate signing request of another key")
	}
	if len(request.URIs) != 1 {
		return nil, errors.New("certificate signing request without the cluster's URI")
	}
	return &Request{
		KeyPEM: keyPEM, PEM: requestPEM,
		ClusterID: request.Subject.CommonName, TrustDomain: request.URIs[0].Hostname(),
		Fingerprint: pki.SPKIHash(request.RawSubjectPublicKeyInfo),
	}, nil
}

func parseKey(content []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no private key in PEM form")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("private key cannot be parsed")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("private key cannot sign")
	}
	return signer, nil
}
