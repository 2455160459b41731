package handshake

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
)

// newNonce returns a nonce in the form of Liqo's generateNonce.
func newNonce(t *testing.T) []byte {
	t.Helper()
	random := make([]byte, NonceSize)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(random))
}

// refusedNonces returns challenges that are not nonces of Liqo.
func refusedNonces(t *testing.T) map[string][]byte {
	t.Helper()
	key := handshaketest.NewKeyPair(t)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome"}}, key.Private)
	runtest.Check(t, err)
	request, err := x509.ParseCertificateRequest(csr)
	runtest.Check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rome"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Private.Public(), key.Private)
	runtest.Check(t, err)
	certificate, err := x509.ParseCertificate(der)
	runtest.Check(t, err)
	spaces := strings.Repeat(" ", 64)
	text := string(newNonce(t))
	raw := bytes.Repeat([]byte{0xff}, 3*NonceSize)
	return map[string][]byte{
		"nothing":       nil,
		"a sentence":    []byte("I, rome, owe the holder of this a thousand cores"),
		"the raw bytes": raw[:NonceSize],
		"88 raw bytes":  raw[:nonceText],
		"88 zeros":      make([]byte, nonceText),
		"the text of a TLS 1.3 client's CertificateVerify":            []byte(spaces + "TLS 1.3, client CertificateVerify\x00" + strings.Repeat("h", 32)),
		"the text of a TLS 1.3 client's CertificateVerify, shortened": []byte(spaces + "TLS 1.3, client Certifica")[:nonceText],
		"the text of a TLS 1.3 server's CertificateVerify":            []byte(spaces + "TLS 1.3, server CertificateVerify\x00" + strings.Repeat("h", 32)),
		"a TLS 1.2 transcript that begins with a ClientHello":         []byte("\x01\x00\x00\x54\x03\x03" + text)[:nonceText],
		"the signed parameters of a TLS 1.2 ServerKeyExchange":        []byte(text[:64] + "\x03\x00\x1d\x20" + strings.Repeat("p", 20)),
		"the signed part of a certificate request":                    request.RawTBSCertificateRequest,
		"the signed part of a certificate":                            certificate.RawTBSCertificate,
		"a DER sequence of base64 characters and its version":         []byte("0V\x02\x01\x00" + text[5:]),
		"what a JWT is signed over":                                   []byte("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6ZGVmYXVsdDpkZWZhdWx0In0aaaa")[:nonceText],
		"an SSH authentication request":                               []byte("\x00\x00\x00\x20" + text)[:nonceText],
		"a signed file of ssh-keygen":                                 []byte("SSHSIG\x00\x00" + text)[:nonceText],
		"a digest in hexadecimal":                                     []byte(hex.EncodeToString(raw[:44])),
		"an envelope of the agents":                                   []byte("liqo-resource-broker envelope v1\x00" + text)[:nonceText],
		"a nonce without padding":                                     []byte(strings.TrimRight(text, "=")),
		"a nonce and a newline":                                       []byte(text + "\n"),
		"a nonce with a newline in it":                                []byte(text[:40] + "\n" + text[40:])[:nonceText],
		"two newlines in place of two characters":                     []byte("\r\n" + text[2:]),
		"two nonces": []byte(text + text),
		"the base64 text of 66 bytes, which has no padding": []byte(base64.StdEncoding.EncodeToString(raw[:66])),
		"the base64 text of 65 bytes":                       []byte(base64.StdEncoding.EncodeToString(raw[:65])),
		"base64 for URLs":                                   []byte(base64.URLEncoding.EncodeToString(raw[:NonceSize])),
		"base64 whose unused bits are set":                  []byte(text[:85] + "B=="),
	}
}

func TestOnlyNoncesOfLiqoAreSigned(t *testing.T) {
	key := handshaketest.NewKeyPair(t)
	for range 100 {
		nonce := newNonce(t)
		signature, err := signNonce(key.Private, nonce)
		if err != nil || !ed25519.Verify(key.Private.Public().(ed25519.PublicKey), nonce, signature) {
			t.Fatalf("nonce %q: %v", nonce, err)
		}
	}
	for name, nonce := range refusedNonces(t) {
		t.Run(name, func(t *testing.T) {
			if signature, err := signNonce(key.Private, nonce); err == nil || signature != nil {
				t.Errorf("%q: got signature %x, error %v", nonce, signature, err)
			}
		})
	}
}

func FuzzOnlyNoncesOfLiqoAreSigned(f *testing.F) {
	f.Add([]byte(base64.StdEncoding.EncodeToString(make([]byte, NonceSize))))
	f.Add([]byte(strings.Repeat(" ", 64) + "TLS 1.3, client CertificateVerify\x00"))
	f.Add([]byte("0V\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, nonce []byte) {
		if checkNonce(nonce) != nil {
			return
		}
		random, err := base64.StdEncoding.DecodeString(string(nonce))
		if err != nil || len(random) != NonceSize || base64.StdEncoding.EncodeToString(random) != string(nonce) {
			t.Errorf("%q is accepted, and Liqo does not make it", nonce)
		}
	})
}
