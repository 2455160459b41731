package pki

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxReceiptChain is the maximum number of certificates of a receipt.
const MaxReceiptChain = 4

// Domain says what a statement is about. It begins the signed bytes, so that a signature is valid only
// for a statement of its domain.
type Domain string

// JournalHeads is the domain of statements about the head of the journal.
const JournalHeads Domain = "liqo-resource-broker journal head v1\x00"

// Receipts is the domain of receipts. It begins the bytes that are signed for a receipt, so that a signature made for
// another purpose is never valid for a receipt. A signature in a TLS 1.3 handshake covers bytes
// that begin with 64 spaces. A signed JWT contains no spaces. In TLS 1.2, the signed bytes begin
// with a nonce that the client chooses and a nonce of the server. To make them the beginning of a
// receipt, an attacker would need certificates whose digest equals the server's nonce.
const Receipts Domain = "liqo-resource-broker receipt v1\x00"

// ReceiptSigner signs the statements of receipts, and of heads of the journal, with the key of a server certificate.
type ReceiptSigner struct {
	key crypto.Signer
	// Certificates is the chain in DER. It begins with the server's own certificate, and does not
	// contain the root CA. All receipts share it, so it must not be modified.
	Certificates [][]byte
	digest       [sha256.Size]byte
}

// NewReceiptSigner returns a signer for a server certificate. It returns an error if the private key cannot sign, or if
// the chain is too long for a receipt.
func NewReceiptSigner(cert tls.Certificate) (*ReceiptSigner, error) {
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok || len(cert.Certificate) == 0 {
		return nil, errors.New("sign receipts: certificate without a private key that signs")
	}
	chain := slices.Clone(cert.Certificate)
	chain = slices.DeleteFunc(chain, func(der []byte) bool { return !bytes.Equal(der, chain[0]) && isRoot(der) })
	if len(chain) > MaxReceiptChain {
		return nil, fmt.Errorf("sign receipts: the server's certificate has %d intermediate certificates: at most %d are possible", len(chain)-1, MaxReceiptChain-1)
	}
	return &ReceiptSigner{key: key, Certificates: chain, digest: chainDigest(chain)}, nil
}

// isRoot reports whether a certificate names itself as its issuer. Receipts do not contain root
// CAs: whoever verifies a receipt must have them from another source.
func isRoot(der []byte) bool {
	cert, err := x509.ParseCertificate(der)
	return err == nil && bytes.Equal(cert.RawIssuer, cert.RawSubject)
}

// Sign returns the signature of a statement.
func (s *ReceiptSigner) Sign(domain Domain, statement []byte) ([]byte, error) {
	signature, err := signMessage(s.key, receiptBytes(domain, s.digest, statement))
	if err != nil {
		return nil, fmt.Errorf("sign with the key of the server certificate: %w", err)
	}
	return signature, nil
}

// VerifyStatement checks the signature of a statement, and returns the certificate of the server that signed it. The
// certificate chain must lead to roots, allow server authentication, and have been valid at the given time.
func VerifyStatement(domain Domain, statement []byte, certificates [][]byte, signature []byte, roots *x509.CertPool, at time.Time) (*x509.Certificate, error) {
	if roots == nil {
		// With nil, x509 would use the system's CAs.
		return nil, errors.New("no CA to verify it with")
	}
	if n := len(certificates); n == 0 || n > MaxReceiptChain {
		return nil, fmt.Errorf("%d certificates, want 1 to %d", n, MaxReceiptChain)
	}
	leaf, err := verifyChain(certificates, roots, at, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	if err := verifySignature(leaf.PublicKey, receiptBytes(domain, chainDigest(certificates), statement), signature); err != nil {
		return nil, err
	}
	return leaf, nil
}

// receiptBytes gives different bytes for different inputs: no domain begins with another, and digests have one length.
func receiptBytes(domain Domain, chain [sha256.Size]byte, statement []byte) []byte {
	return slices.Concat([]byte(domain), chain[:], statement)
}

// chainDigest returns a digest of all certificates. The digest is signed, so no certificate of a
// receipt can be replaced, added or removed, not even one that verification does not need.
func chainDigest(chain [][]byte) [sha256.Size]byte {
	whole := make([]byte, 0, len(chain)*sha256.Size)
	for _, der := range chain {
		digest := sha256.Sum256(der)
		whole = append(whole, digest[:]...)
	}
	return sha256.Sum256(whole)
}
