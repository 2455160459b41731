package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// ParseBundle reads one or more CA certificates in PEM form, without duplicates. A PEM block that
// is damaged, of another type or without a readable certificate is an error, so that it is noticed
// even while another certificate in the bundle still works. Text outside the blocks is ignored.
func ParseBundle(content []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	rest, blocks := content, 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		blocks++
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
	if begun := bytes.Count(content, []byte("-----BEGIN ")); begun > blocks {
		return nil, fmt.Errorf("%d of %d PEM blocks are damaged: is the file complete?", begun-blocks, begun)
	}
	if len(certs) == 0 {
		return nil, errors.New("no CA certificate in PEM form")
	}
	return certs, nil
}

// EncodeBundle returns the certificates in PEM form, as ParseBundle reads them.
func EncodeBundle(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return out.Bytes()
}

// TrustDigest returns a digest of the CAs that a party trusts, for servers and for agents. Two
// parties that trust the same CAs have the same digest, whatever the order and format of their
// files. The digest is "sha256:" and 64 hexadecimal digits.
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

// digestPrefix is the name of the hash function at the beginning of a digest.
const digestPrefix = "sha256:"

// KeyHash returns the SHA-256 of a certificate's public key (SubjectPublicKeyInfo) as
// "sha256:" and 64 hexadecimal digits. kubeadm has the same format for its
// discovery-token-ca-cert-hash. The hash does not change when the certificate is renewed with
// the same key.
func KeyHash(cert *x509.Certificate) string { return SPKIHash(cert.RawSubjectPublicKeyInfo) }

// SPKIHash returns the KeyHash of a SubjectPublicKeyInfo in DER, for example in a certificate
// signing request.
func SPKIHash(spki []byte) string {
	digest := sha256.Sum256(spki)
	return digestPrefix + hex.EncodeToString(digest[:])
}

// ParseKeyHash checks a key hash that a user has given, and returns it in lower case.
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

// KeyPair is a certificate and its private key, both in PEM form.
type KeyPair struct {
	CertPEM, KeyPEM []byte
}

// TLS parses the certificate and the key. The field Leaf of the result is set.
func (p KeyPair) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(p.CertPEM, p.KeyPEM)
}
