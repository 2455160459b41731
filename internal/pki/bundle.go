package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// ParseBundle reads one or more CA certificates in PEM form. Any other content is an error, so
// that a damaged root is noticed while the other one still works.
func ParseBundle(content []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest := content
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a PEM block is %q: put only CA certificates there", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		if !slices.ContainsFunc(certs, cert.Equal) {
			certs = append(certs, cert)
		}
	}
	if len(certs) == 0 {
		return nil, errors.New("no CA certificate in PEM form")
	}
	return certs, nil
}

// EncodeBundle is the reverse of ParseBundle.
func EncodeBundle(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return out.Bytes()
}

// TrustDigest identifies a set of roots: two parties with the same roots for servers and for
// agents have the same digest, however the files are written. The digest is "sha256:" and 64
// hexadecimal digits.
func TrustDigest(servers, agents []*x509.Certificate) string {
	whole := sha256.New()
	for _, bundle := range [][]*x509.Certificate{servers, agents} {
		part := bundleDigest(bundle)
		whole.Write(part[:])
	}
	return digestPrefix + hex.EncodeToString(whole.Sum(nil))
}

func bundleDigest(certs []*x509.Certificate) [sha256.Size]byte {
	digests := make([][]byte, len(certs))
	for i, cert := range certs {
		digest := sha256.Sum256(cert.Raw)
		digests[i] = digest[:]
	}
	slices.SortFunc(digests, bytes.Compare)
	return sha256.Sum256(bytes.Join(digests, nil))
}

// digestPrefix names the hash function of a digest.
const digestPrefix = "sha256:"

// KeyHash returns the SHA-256 of a certificate's SubjectPublicKeyInfo as "sha256:" and 64
// hexadecimal digits. kubeadm calls it the discovery token CA certificate hash. It survives a
// renewal with the same key.
func KeyHash(cert *x509.Certificate) string { return SPKIHash(cert.RawSubjectPublicKeyInfo) }

// SPKIHash is KeyHash for a SubjectPublicKeyInfo in DER, such as that of a certificate signing
// request.
func SPKIHash(spki []byte) string {
	digest := sha256.Sum256(spki)
	return digestPrefix + hex.EncodeToString(digest[:])
}

// ParseKeyHash validates and normalizes a key hash given by a user.
func ParseKeyHash(text string) (string, error) {
	digits, ok := bytes.CutPrefix([]byte(text), []byte(digestPrefix))
	if raw, err := hex.DecodeString(string(digits)); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is not a key hash: want sha256: and 64 hexadecimal digits, as `broker enrol` prints it", text)
	}
	return digestPrefix + string(bytes.ToLower(digits)), nil
}

func newCertPool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, cert := range certs {
		p.AddCert(cert)
	}
	return p
}
