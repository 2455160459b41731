// Package authority issues the certificates inside the playground's clusters, for API servers, components and
// webhooks.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityValidity is longer than any playground is kept, because the authority's certificate is not renewed. The
	// certificates that it issues are renewed at each boot.
	authorityValidity = 10 * 365 * 24 * time.Hour
	leafValidity      = 365 * 24 * time.Hour
	// backdating is how long before the present time certificates become valid. A clock that was set back by
	// less than this time still accepts them.
	backdating = time.Hour
)

// Authority is a certificate authority that is kept in two files.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	now         func() time.Time
	certFile    string
	keyFile     string
}

// Pair is a certificate and its private key in PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Subject is the owner of a certificate.
type Subject struct {
	CommonName    string
	Organizations []string
	// Hosts are DNS names and addresses of a server. If empty, the certificate is for a client.
	Hosts []string
}

// Open loads the authority from ca.crt and ca.key in dir, or creates it.
func Open(dir, commonName string, now func() time.Time) (*Authority, error) {
	a := &Authority{now: now, certFile: filepath.Join(dir, "ca.crt"), keyFile: filepath.Join(dir, "ca.key")}
	err := a.load()
	if errors.Is(err, os.ErrNotExist) {
		err = a.create(commonName)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority in %q: %w", dir, err)
	}
	return a, nil
}

// CertFile returns the path of the file with the authority's certificate.
func (a *Authority) CertFile() string { return a.certFile }

// KeyFile returns the path of the file with the authority's private key.
func (a *Authority) KeyFile() string { return a.keyFile }

// PEM returns the authority's certificate in PEM.
func (a *Authority) PEM() []byte { return encodeCertificate(a.certificate.Raw) }

func (a *Authority) load() error {
	certificates, err := cert.CertsFromFile(a.certFile)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(a.keyFile)
	if err != nil {
		return err
	}
	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return fmt.Errorf("key %q: %w", a.keyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("key %q cannot sign", a.keyFile)
	}
	a.certificate, a.key = certificates[0], signer
	return nil
}

func (a *Authority) create(commonName string) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate, a.key = template, key
	der, err := a.sign(template, key.Public(), authorityValidity)
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(a.keyFile), 0o755); err != nil {
		return err
	}
	// The certificate is written last, because load takes a missing certificate to mean that there is no
	// authority.
	if err := os.WriteFile(a.keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(a.certFile, encodeCertificate(der), 0o644)
}

// Issue returns a certificate with a new key.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range s.Hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := a.sign(template, key.Public(), leafValidity)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate for %q: %w", s.CommonName, err)
	}
	return Pair{Certificate: encodeCertificate(der), Key: keyPEM}, nil
}

// IssueFiles issues a certificate and writes it to name.crt and name.key in dir.
func (a *Authority) IssueFiles(dir, name string, s Subject) (certFile, keyFile string, err error) {
	pair, err := a.Issue(s)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(keyFile, pair.Key, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, os.WriteFile(certFile, pair.Certificate, 0o644)
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey, validity time.Duration) ([]byte, error) {
	now := a.now()
	template.NotBefore, template.NotAfter = now.Add(-backdating), now.Add(validity)
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, encoded, err
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
