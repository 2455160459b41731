package pki

import "crypto/tls"

// KeyPair is a certificate and its private key, both in PEM form.
type KeyPair struct {
	CertPEM, KeyPEM []byte
}

// TLS parses the certificate and the key. The field Leaf of the result is set.
func (p KeyPair) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(p.CertPEM, p.KeyPEM)
}
