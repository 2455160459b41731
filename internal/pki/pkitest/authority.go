// Package pkitest issues certificates for tests and benchmarks. Real installations use
// cert-manager or a CA of their own.
package pkitest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Lifetimes of certificates of an authority and of certificates that it issues. They are long
// because nothing renews these certificates.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	LeafLifetime      = 365 * 24 * time.Hour
	// backdating is how long before the time of its authority a certificate becomes valid.
	backdating = 5 * time.Minute
)

// Authority is a small certificate authority with an ECDSA P-256 key.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

// NewAuthority makes a self-signed authority. now is the time of the authority, from which its
// certificates are valid.
func NewAuthority(commonName string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := authorityTemplate(commonName, now)
	cert, err := issueCertificate(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, now: now}, nil
}

func authorityTemplate(commonName string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-backdating),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// TLS returns the authority's own certificate and key, for tests in which a program uses a CA
// certificate as a client or server.
func (a *Authority) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
}

// CertPEM returns the authority's own certificate in PEM form.
func (a *Authority) CertPEM() []byte { return pki.EncodeBundle([]*x509.Certificate{a.cert}) }

// Pool returns a pool with only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Intermediate returns a new authority whose certificate is signed by a.
func (a *Authority) Intermediate(commonName string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := issueCertificate(authorityTemplate(commonName, a.now), a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, now: a.now}, nil
}

// IssueServer issues a server certificate for the given DNS names and IP addresses.
func (a *Authority) IssueServer(dnsNames []string, ips []net.IP) (pki.KeyPair, error) {
	return a.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "broker"},
		DNSNames:    dnsNames,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// IssueClient issues the certificate of a cluster's agent. If trustDomain is empty, the
// certificate has no URI SAN.
func (a *Authority) IssueClient(clusterID, trustDomain string) (pki.KeyPair, error) {
	if !pki.ValidClusterID(clusterID) {
		return pki.KeyPair{}, fmt.Errorf("cluster ID %q: want a lower-case DNS label of at most %d characters", clusterID, pki.MaxClusterIDLength)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: clusterID},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if trustDomain != "" {
		template.URIs = []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: "/cluster/" + clusterID}}
	}
	return a.Issue(template)
}

// Issue makes a new key and signs a certificate for it. It sets the serial number, and the
// lifetime and key usage if the template does not set them. Tests also use it to make invalid
// certificates.
func (a *Authority) Issue(template *x509.Certificate) (pki.KeyPair, error) {
	key, err := newKey()
	if err != nil {
		return pki.KeyPair{}, err
	}
	certPEM, err := a.Certify(key.Public(), template)
	if err != nil {
		return pki.KeyPair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pki.KeyPair{}, err
	}
	return pki.KeyPair{CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// Certify signs a certificate as Issue does, but for a given public key.
func (a *Authority) Certify(public crypto.PublicKey, template *x509.Certificate) (certPEM []byte, err error) {
	leaf := *template
	if leaf.NotBefore.IsZero() {
		leaf.NotBefore = a.now.Add(-backdating)
	}
	if leaf.NotAfter.IsZero() {
		leaf.NotAfter = a.now.Add(LeafLifetime)
	}
	if leaf.KeyUsage == 0 {
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
	}
	cert, err := issueCertificate(&leaf, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return pki.EncodeBundle([]*x509.Certificate{cert}), nil
}

// Save atomically writes the files that pki.Files reads: certificate and key, the CA of the
// broker's server certificate and, unless it is empty, the CA of the agents.
func Save(dir string, pair pki.KeyPair, ca, agentsCA []byte) error {
	content := map[string][]byte{pki.KeyFile: pair.KeyPEM, pki.CertFile: pair.CertPEM, pki.CAFile: ca}
	if len(agentsCA) > 0 {
		content[pki.AgentsCAFile] = agentsCA
	}
	return pki.Replace(dir, content)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func issueCertificate(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of %q: %w", template.Subject, err)
	}
	return x509.ParseCertificate(der)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("private key of an unsupported type")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
