package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Limits of an envelope: its maximum size in bytes, which must fit into a message body of the
// REST API, the maximum number of certificates, and the minimum size of an RSA key in bits.
const (
	MaxEnvelopeSize = 48 << 10
	maxChain        = 8
	minRSABits      = 2048
)

// envelopeDomain is the beginning of the signed bytes. Because of it, a signature of an envelope
// cannot be mistaken for another signature with the same key, such as one in a TLS handshake.
const envelopeDomain = "liqo-resource-broker envelope v1\x00"

var pssOptions = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}

// envelope is the JSON form of a signed message. It is not encrypted: whoever transports it
// can read it.
type envelope struct {
	Payload []byte `json:"payload"`
	// Certificates is the signer's certificate chain in DER, beginning with the signer's own one.
	Certificates [][]byte `json:"certificates"`
	Signature    []byte   `json:"signature"`
}

// Sign wraps payload in an envelope, so that everyone who trusts the CA of cert can verify the
// sender. The envelope is a third larger than the payload, plus about 2 KiB for each
// certificate.
func Sign(payload []byte, cert tls.Certificate) ([]byte, error) {
	signer, ok := cert.PrivateKey.(crypto.Signer)
	if !ok || len(cert.Certificate) == 0 {
		return nil, errors.New("sign an envelope: certificate without a private key that signs")
	}
	signature, err := signMessage(signer, signedBytes(cert.Certificate[0], payload))
	if err != nil {
		return nil, fmt.Errorf("sign an envelope: %w", err)
	}
	wrapped, err := json.Marshal(envelope{Payload: payload, Certificates: cert.Certificate, Signature: signature})
	if err != nil {
		return nil, err
	}
	if len(wrapped) > MaxEnvelopeSize {
		return nil, fmt.Errorf("sign an envelope: %d bytes exceed the limit of %d", len(wrapped), MaxEnvelopeSize)
	}
	return wrapped, nil
}

// Verify checks an envelope. It returns the payload and the ID of the cluster that signed it.
// The signer's certificate chain must lead to roots, be valid at time now and allow client
// authentication, and the signer's certificate must identify a cluster (see ClusterID). Errors
// do not contain the payload.
func Verify(wrapped []byte, roots *x509.CertPool, now time.Time) (clusterID string, payload []byte, err error) {
	if roots == nil {
		// With nil, x509 would use the system's CAs.
		return "", nil, errors.New("envelope: no CA to verify it with")
	}
	e, err := openEnvelope(wrapped)
	if err != nil {
		return "", nil, err
	}
	leaf, err := verifyChain(e.Certificates, roots, now, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return "", nil, fmt.Errorf("envelope: %w", err)
	}
	clusterID, err = ClusterID(leaf)
	if err != nil {
		return "", nil, fmt.Errorf("envelope: %w", err)
	}
	if err := verifySignature(leaf.PublicKey, signedBytes(leaf.Raw, e.Payload), e.Signature); err != nil {
		return "", nil, fmt.Errorf("envelope: %w", err)
	}
	return clusterID, e.Payload, nil
}

// signedBytes returns the bytes that are signed. They contain a digest of the signer's certificate,
// besides the payload: otherwise an attacker could replace the certificate by another one for the
// same key. The digest has a fixed length, so different inputs never result in the same bytes.
func signedBytes(leaf, payload []byte) []byte {
	digest := sha256.Sum256(leaf)
	return slices.Concat([]byte(envelopeDomain), digest[:], payload)
}

func signMessage(signer crypto.Signer, message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	switch key := signer.Public().(type) {
	case ed25519.PublicKey:
		return signer.Sign(rand.Reader, message, crypto.Hash(0))
	case *ecdsa.PublicKey:
		return signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("RSA key of %d bits: at least %d", key.N.BitLen(), minRSABits)
		}
		return signer.Sign(rand.Reader, digest[:], pssOptions)
	}
	return nil, errors.New("key is neither ECDSA, Ed25519 nor RSA")
}

func verifySignature(public crypto.PublicKey, message, signature []byte) error {
	digest := sha256.Sum256(message)
	good := false
	switch key := public.(type) {
	case ed25519.PublicKey:
		good = ed25519.Verify(key, message, signature)
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(key, digest[:], signature)
	case *rsa.PublicKey:
		good = key.N.BitLen() >= minRSABits && rsa.VerifyPSS(key, crypto.SHA256, digest[:], signature, pssOptions) == nil
	default:
		return errors.New("signed with a key that is neither ECDSA, Ed25519 nor RSA")
	}
	if !good {
		return errors.New("signature does not match payload and certificate")
	}
	return nil
}

func openEnvelope(wrapped []byte) (*envelope, error) {
	if len(wrapped) > MaxEnvelopeSize {
		return nil, fmt.Errorf("envelope: %d bytes exceed the limit of %d", len(wrapped), MaxEnvelopeSize)
	}
	decoder := json.NewDecoder(bytes.NewReader(wrapped))
	decoder.DisallowUnknownFields()
	var e envelope
	if err := decoder.Decode(&e); err != nil {
		return nil, errors.New("envelope: not a JSON object with exactly payload, certificates and signature")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("envelope: trailing data")
	}
	if n := len(e.Certificates); n == 0 || n > maxChain {
		return nil, fmt.Errorf("envelope: %d certificates, want 1 to %d", n, maxChain)
	}
	return &e, nil
}

// verifyChain verifies a certificate chain and returns its first certificate. The chain must lead
// to roots. All its certificates must be valid at the given time and allow the usage.
func verifyChain(chain [][]byte, roots *x509.CertPool, at time.Time, usage x509.ExtKeyUsage) (*x509.Certificate, error) {
	certificates := make([]*x509.Certificate, len(chain))
	for i, der := range chain {
		var err error
		if certificates[i], err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read", i)
		}
	}
	if _, err := VerifyChain(certificates, roots, at, usage); err != nil {
		return nil, fmt.Errorf("certificate of %q: %w", certificates[0].Subject, err)
	}
	return certificates[0], nil
}

// VerifyChain verifies the first certificate of a chain, and returns the paths from it to roots. All
// certificates must be valid at the given time and allow the usage.
func VerifyChain(chain []*x509.Certificate, roots *x509.CertPool, at time.Time, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	return chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: newCertPool(chain[1:]), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage},
	})
}
