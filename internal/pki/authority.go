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

// How long an Authority's certificates are valid. Those it issues are few and
// local, so nothing renews them.
const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// clockSkew is how far the clocks of the parties may lie apart.
	clockSkew = 5 * time.Minute
)

// Authority is a small certificate authority with an ECDSA P-256 key for the
// playground and for tests. Installations use cert-manager or their own CA.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

// KeyPair is a certificate and its private key, both PEM.
type KeyPair struct {
	CertPEM, KeyPEM []byte
}

// NewAuthority makes a self-signed authority. All it issues is valid from now.
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
	cert, err := issue(template, template, key.Public(), key)
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
		return nil, fmt.Errorf("load the authority in %q: %s is no CA certificate", dir, CAFile)
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

// CertPEM is the authority's own certificate.
func (a *Authority) CertPEM() []byte { return encodeCert(a.cert) }

// Pool holds the authority's certificate alone.
func (a *Authority) Pool() *x509.CertPool { return pool([]*x509.Certificate{a.cert}) }

// IssueServer issues a certificate for a server under the given names and addresses.
func (a *Authority) IssueServer(dnsNames []string, ips []net.IP) (KeyPair, error) {
	return a.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "broker"},
		DNSNames:    dnsNames,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// IssueClient issues the certificate of a cluster's agent. Without a trust domain
// the certificate has no URI SAN.
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

// Issue signs template with a new key. Serial number, and lifetime and key usage
// where template leaves them open, are filled in. It is the way to certificates
// that nobody should have, for tests.
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

// Certify is Issue for a key that somebody else has.
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
	cert, err := issue(&leaf, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return encodeCert(cert), nil
}

// TLS parses the pair; the Leaf is set.
func (p KeyPair) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(p.CertPEM, p.KeyPEM)
}

// Save lays out dir as Files reads it: the pair, the CA that the peer's server
// certificate is checked against and, unless empty, the CA of the agents. What dir
// held is replaced in one step.
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

func issue(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
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
		return nil, errors.New("private key of a kind that cannot be written")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
