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

// ParseBundle reads CA certificates in PEM form: one, or during a rotation more.
// What is not a certificate in it is an error, so that a damaged root is noticed
// while the other still serves.
func ParseBundle(content []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest := content
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a block is %q: put CA certificates there alone", block.Type)
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

// EncodeBundle is what ParseBundle reads.
func EncodeBundle(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(encodeCert(cert))
	}
	return out.Bytes()
}

// TrustDigest names what is trusted: two parties with the same roots for servers and
// for agents have the same digest, however the files are written. It is
// "sha256:" and 64 hexadecimal digits.
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

// digestPrefix says how a digest was made.
const digestPrefix = "sha256:"

// KeyHash is the SHA-256 of a certificate's SubjectPublicKeyInfo, "sha256:" and 64
// hexadecimal digits: what kubeadm calls a discovery token's CA certificate hash.
// It stays when the certificate is renewed with the same key.
func KeyHash(cert *x509.Certificate) string { return SPKIHash(cert.RawSubjectPublicKeyInfo) }

// SPKIHash is the KeyHash of a SubjectPublicKeyInfo in DER, such as that of a
// certificate signing request.
func SPKIHash(spki []byte) string {
	digest := sha256.Sum256(spki)
	return digestPrefix + hex.EncodeToString(digest[:])
}

// ParseKeyHash checks what somebody gives as a KeyHash.
func ParseKeyHash(text string) (string, error) {
	digits, ok := bytes.CutPrefix([]byte(text), []byte(digestPrefix))
	if raw, err := hex.DecodeString(string(digits)); !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is no key hash: want sha256: and 64 hexadecimal digits, as `broker enrol` prints it", text)
	}
	return digestPrefix + string(bytes.ToLower(digits)), nil
}

func pool(certs []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, cert := range certs {
		p.AddCert(cert)
	}
	return p
}
