package pki

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
	"path/filepath"
	"time"
)

// Lifetimes of an Authority's certificates. They are long because nothing renews them.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// clockSkew is the tolerated difference between the clocks of two parties.
	clockSkew = 5 * time.Minute
)

// Authority is a small certificate authority with an ECDSA P-256 key, for the playground and
// for tests. Installations use cert-manager or their own CA.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

// KeyPair is a certificate and its private key, both in PEM form.
type KeyPair struct {
	CertPEM, KeyPEM []byte
}

// NewAuthority makes a self-signed authority. Its certificates are valid from now.
func NewAuthority(commonName string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, err := issueCertificate(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, now: now}, nil
}

// LoadAuthority reads what Save wrote into dir.
func LoadAuthority(dir string, now time.Time) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CAFile), filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("load the authority in %q: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("load the authority in %q: %s is not a CA certificate", dir, CAFile)
	}
	return &Authority{cert: pair.Leaf, key: key, now: now}, nil
}

// Save writes ca.crt and ca.key into dir, which must exist.
func (a *Authority) Save(dir string) error {
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	return Replace(dir, map[string][]byte{caKeyFile: key, CAFile: a.CertPEM()})
}

// CertPEM returns the authority's own certificate.
func (a *Authority) CertPEM() []byte { return encodeCert(a.cert) }

// Pool returns a pool with only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool { return newCertPool([]*x509.Certificate{a.cert}) }

// IssueServer issues a server certificate for the given names and addresses.
func (a *Authority) IssueServer(dnsNames []string, ips []net.IP) (KeyPair, error) {
	return a.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "broker"},
		DNSNames:    dnsNames,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// IssueClient issues the certificate of a cluster's agent. Without a trust domain it has no URI
// SAN.
func (a *Authority) IssueClient(clusterID, trustDomain string) (KeyPair, error) {
	if !ValidClusterID(clusterID) {
		return KeyPair{}, fmt.Errorf("cluster ID %q: want a lower-case DNS label of at most %d characters", clusterID, MaxClusterIDLength)
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

// Issue signs template with a new key. It fills in the serial number, and lifetime and key
// usage where template leaves them zero. Tests use it for invalid certificates, too.
func (a *Authority) Issue(template *x509.Certificate) (KeyPair, error) {
	key, err := newKey()
	if err != nil {
		return KeyPair{}, err
	}
	certPEM, err := a.Certify(key.Public(), template)
	if err != nil {
		return KeyPair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// Certify is Issue for a public key whose private key the caller keeps.
func (a *Authority) Certify(public crypto.PublicKey, template *x509.Certificate) (certPEM []byte, err error) {
	leaf := *template
	if leaf.NotBefore.IsZero() {
		leaf.NotBefore = a.now.Add(-clockSkew)
	}
	if leaf.NotAfter.IsZero() {
		leaf.NotAfter = a.now.Add(leafLifetime)
	}
	if leaf.KeyUsage == 0 {
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
	}
	cert, err := issueCertificate(&leaf, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return encodeCert(cert), nil
}

// TLS parses the pair and sets Leaf.
func (p KeyPair) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(p.CertPEM, p.KeyPEM)
}

// Save atomically writes the files that Files reads: the pair, the CA of the peer's server
// certificate and, unless empty, the CA of the agents.
func (p KeyPair) Save(dir string, ca, agentsCA []byte) error {
	content := map[string][]byte{KeyFile: p.KeyPEM, CertFile: p.CertPEM, CAFile: ca}
	if len(agentsCA) > 0 {
		content[AgentsCAFile] = agentsCA
	}
	return Replace(dir, content)
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

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("private key of an unsupported type")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
