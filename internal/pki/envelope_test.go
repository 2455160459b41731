package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestVerifyReturnsSignedPayload(t *testing.T) {
	keys := map[string]func() (crypto.Signer, error){
		"P-256":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"P-384":   func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"Ed25519": func() (crypto.Signer, error) { _, k, err := ed25519.GenerateKey(rand.Reader); return k, err },
		"RSA":     func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
	}
	a := newAuthority(t)
	for name, generate := range keys {
		t.Run(name, func(t *testing.T) {
			key, err := generate()
			runtest.Check(t, err)
			wrapped, err := pki.Sign([]byte("hello"), signedBy(t, a, key, "rome"))
			runtest.Check(t, err)
			id, payload, err := pki.Verify(wrapped, a.Pool(), testTime)
			if id != "rome" || string(payload) != "hello" || err != nil {
				t.Errorf("Verify = %q, %q, %v; want rome, hello", id, payload, err)
			}
		})
	}
}

func TestVerifyAcceptsIntermediate(t *testing.T) {
	root := newAuthority(t)
	middle, err := root.Intermediate("middle")
	runtest.Check(t, err)
	cert := pkitest.Parse(t)(middle.IssueClient("rome", ""))
	if _, _, err := pki.Verify(mustSign(t, cert), root.Pool(), testTime); err == nil {
		t.Error("an envelope without its intermediate was taken")
	}
	cert.Certificate = append(cert.Certificate, middle.Certificate().Raw)
	if id, _, err := pki.Verify(mustSign(t, cert), root.Pool(), testTime); id != "rome" || err != nil {
		t.Errorf("Verify = %q, %v; want rome", id, err)
	}
}

func TestVerifyRefusesTamperedEnvelope(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	rome := pkitest.Parse(t)(a.IssueClient("rome", ""))
	paris := pkitest.Parse(t)(a.IssueClient("paris", ""))
	// twin has another certificate for rome's key.
	twin := signedBy(t, a, rome.PrivateKey.(crypto.Signer), "berlin")

	edits := map[string]func(*pki.Envelope){
		"payload changed":                     func(e *pki.Envelope) { e.Payload[0] ^= 1 },
		"payload cut":                         func(e *pki.Envelope) { e.Payload = e.Payload[:len(e.Payload)-1] },
		"payload longer":                      func(e *pki.Envelope) { e.Payload = append(e.Payload, 0) },
		"payload gone":                        func(e *pki.Envelope) { e.Payload = nil },
		"signature changed":                   func(e *pki.Envelope) { e.Signature[len(e.Signature)-1] ^= 1 },
		"signature gone":                      func(e *pki.Envelope) { e.Signature = nil },
		"certificate of another cluster":      func(e *pki.Envelope) { e.Certificates = paris.Certificate },
		"other certificate for the same key":  func(e *pki.Envelope) { e.Certificates = twin.Certificate },
		"certificates gone":                   func(e *pki.Envelope) { e.Certificates = nil },
		"another certificate put first":       func(e *pki.Envelope) { e.Certificates = append(paris.Certificate[:1:1], e.Certificates...) },
		"certificate cut":                     func(e *pki.Envelope) { e.Certificates = [][]byte{e.Certificates[0][:9]} },
		"too many certificates":               func(e *pki.Envelope) { e.Certificates = append(make([][]byte, pki.MaxChain), e.Certificates...) },
		"signature over the payload alone":    func(e *pki.Envelope) { e.Signature = rawSign(t, rome, e.Payload) },
		"signature of another use of the key": func(e *pki.Envelope) { e.Signature = rawSign(t, rome, append([]byte("other\x00"), e.Payload...)) },
		"signed by another cluster of the CA": func(e *pki.Envelope) { e.Signature = rawSign(t, paris, pki.SignedBytes(e.Certificates[0], e.Payload)) },
		"certificate moved into the payload":  func(e *pki.Envelope) { e.Payload = append(e.Certificates[0], e.Payload...) },
		"signed by a cluster of another CA":   func(e *pki.Envelope) { *e = opened(t, mustSign(t, pkitest.Parse(t)(foreign.IssueClient("rome", "")))) },
		"signed with a server certificate": func(e *pki.Envelope) {
			*e = opened(t, mustSign(t, pkitest.Parse(t)(a.IssueServer([]string{"rome"}, nil))))
		},
		"signed with the CA itself": func(e *pki.Envelope) {
			*e = opened(t, mustSign(t, a.TLS()))
		},
		"signed with a name that is no cluster": func(e *pki.Envelope) {
			*e = opened(t, mustSign(t, signedBy(t, a, rome.PrivateKey.(crypto.Signer), "Rome")))
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			e := opened(t, mustSign(t, rome))
			edit(&e)
			wrapped, err := json.Marshal(e)
			runtest.Check(t, err)
			refused(t, wrapped, a.Pool(), testTime)
		})
	}

	good := mustSign(t, rome)
	t.Run("expired", func(t *testing.T) { refused(t, good, a.Pool(), testTime.Add(pkitest.LeafLifetime+time.Hour)) })
	t.Run("not valid yet", func(t *testing.T) { refused(t, good, a.Pool(), testTime.Add(-time.Hour)) })
	t.Run("no CA", func(t *testing.T) { refused(t, good, nil, testTime) })
	t.Run("empty CA", func(t *testing.T) { refused(t, good, x509.NewCertPool(), testTime) })
	t.Run("nothing", func(t *testing.T) { refused(t, nil, a.Pool(), testTime) })
	t.Run("unknown field", func(t *testing.T) {
		refused(t, bytes.Replace(good, []byte(`{`), []byte(`{"x":1,`), 1), a.Pool(), testTime)
	})
	t.Run("a second envelope behind", func(t *testing.T) { refused(t, append(slices.Clip(good), good...), a.Pool(), testTime) })
	t.Run("too big", func(t *testing.T) {
		refused(t, append(slices.Clip(good), bytes.Repeat([]byte(" "), pki.MaxEnvelopeSize)...), a.Pool(), testTime)
	})
}

func TestSignRefusesOversizedPayload(t *testing.T) {
	a := newAuthority(t)
	cert := pkitest.Parse(t)(a.IssueClient("rome", ""))
	if _, err := pki.Sign(make([]byte, pki.MaxEnvelopeSize), cert); err == nil {
		t.Error("an envelope bigger than a message was signed")
	}
	if _, err := pki.Sign([]byte("hello"), tls.Certificate{Certificate: cert.Certificate}); err == nil {
		t.Error("an envelope was signed without a key")
	}
}

func TestVerifyErrorOmitsPayload(t *testing.T) {
	a := newAuthority(t)
	const canary = "canary-4711"
	wrapped, err := pki.Sign([]byte(canary), pkitest.Parse(t)(a.IssueClient("rome", "")))
	runtest.Check(t, err)
	e := opened(t, wrapped)
	e.Signature[0] ^= 1
	broken, err := json.Marshal(e)
	runtest.Check(t, err)
	for _, input := range [][]byte{broken, []byte(`{"payload":"` + canary + `"`), []byte(`{"` + canary + `":1}`)} {
		if _, _, err := pki.Verify(input, a.Pool(), testTime); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("Verify = %v; want an error without the payload", err)
		}
	}
}

// FuzzVerify checks that Verify rejects an altered envelope, or returns exactly the signed payload.
func FuzzVerify(f *testing.F) {
	a := newAuthority(f)
	rome, err := a.IssueClient("rome", "fluidos.eu")
	runtest.Check(f, err)
	cert, err := rome.TLS()
	runtest.Check(f, err)
	good, err := pki.Sign([]byte("hello"), cert)
	runtest.Check(f, err)
	f.Add(good)
	f.Add([]byte(`{"payload":"","certificates":[""],"signature":""}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`[`))
	roots := a.Pool()
	f.Fuzz(func(t *testing.T, wrapped []byte) {
		id, payload, err := pki.Verify(wrapped, roots, testTime)
		if err == nil && (id != "rome" || string(payload) != "hello") {
			t.Errorf("Verify = %q, %q though nobody signed that", id, payload)
		}
		if err != nil && (id != "" || payload != nil) {
			t.Errorf("Verify = %q, %q beside error %v", id, payload, err)
		}
	})
}

func signedBy(t *testing.T, a *pkitest.Authority, key crypto.Signer, commonName string) tls.Certificate {
	t.Helper()
	content, err := a.Certify(key.Public(), &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, NotBefore: testTime.Add(-time.Minute), NotAfter: testTime.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	runtest.Check(t, err)
	leaf, err := pki.ParseBundle(content)
	runtest.Check(t, err)
	return tls.Certificate{Certificate: [][]byte{leaf[0].Raw}, PrivateKey: key, Leaf: leaf[0]}
}

func mustSign(t *testing.T, cert tls.Certificate) []byte {
	t.Helper()
	wrapped, err := pki.Sign([]byte("hello"), cert)
	runtest.Check(t, err)
	return wrapped
}

func rawSign(t *testing.T, cert tls.Certificate, message []byte) []byte {
	t.Helper()
	digest := sha256.Sum256(message)
	signature, err := cert.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256)
	runtest.Check(t, err)
	return signature
}

func opened(t *testing.T, wrapped []byte) pki.Envelope {
	t.Helper()
	var e pki.Envelope
	runtest.Check(t, json.Unmarshal(wrapped, &e))
	return e
}

func refused(t *testing.T, wrapped []byte, roots *x509.CertPool, now time.Time) {
	t.Helper()
	if id, payload, err := pki.Verify(wrapped, roots, now); err == nil || id != "" || payload != nil {
		t.Errorf("Verify = %q, %q, %v; want nothing but an error", id, payload, err)
	}
}
