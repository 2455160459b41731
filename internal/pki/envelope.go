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

// Limits of an envelope. MaxEnvelopeSize is what fits into a message body of the REST API.
const (
	MaxEnvelopeSize = 48 << 10
	maxChain        = 8
	minRSABits      = 2048
)

// envelopeDomain separates these signatures from other uses of the same key, such as TLS
// handshakes.
const envelopeDomain = "liqo-resource-broker envelope v1\x00"

var pssOptions = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}

// envelope is the wire format. It is signed but not encrypted: anyone who carries it can read
// it.
type envelope struct {
	Payload []byte `json:"payload"`
	// Certificates is the signer's chain in DER, its own certificate first.
	Certificates [][]byte `json:"certificates"`
	Signature    []byte   `json:"signature"`
}

// Sign wraps payload so that anyone who trusts the CA of cert can verify who sent it. The
// result is a third larger than the payload, plus about 2 KiB per certificate.
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

// Verify returns the payload and the cluster that signed it. The signer's chain must lead to
// roots at time now, for client authentication, and its certificate must identify a cluster,
// see ClusterID. Errors do not contain the payload.
func Verify(wrapped []byte, roots *x509.CertPool, now time.Time) (clusterID string, payload []byte, err error) {
	if roots == nil {
		// x509 would take nil for the system's CAs.
		return "", nil, errors.New("envelope: no CA to verify it with")
	}
	e, err := openEnvelope(wrapped)
	if err != nil {
		return "", nil, err
	}
	leaf, err := verifyChain(e.Certificates, roots, now)
	if err != nil {
		return "", nil, err
	}
	clusterID, err = ClusterID(leaf)
	if err != nil {
		return "", nil, fmt.Errorf("envelope: %w", err)
	}
	if err := verifySignature(leaf.PublicKey, signedBytes(leaf.Raw, e.Payload), e.Signature); err != nil {
		return "", nil, err
	}
	return clusterID, e.Payload, nil
}

// signedBytes covers the certificate as well as the payload. Otherwise another certificate for
// the same key could replace the signer's. The digest has a fixed length, so different inputs
// never give the same bytes.
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
		return errors.New("envelope: signed with a key that is neither ECDSA, Ed25519 nor RSA")
	}
	if !good {
		return errors.New("envelope: signature does not match payload and certificate")
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

func verifyChain(chain [][]byte, roots *x509.CertPool, now time.Time) (*x509.Certificate, error) {
	intermediates := x509.NewCertPool()
	var leaf *x509.Certificate
	for i, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("envelope: certificate %d cannot be read", i)
		}
		if i == 0 {
			leaf = cert
			continue
		}
		intermediates.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("envelope: certificate of %q: %w", leaf.Subject, err)
	}
	return leaf, nil
}
