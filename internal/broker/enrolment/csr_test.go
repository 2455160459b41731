package enrolment

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const trustDomain = "fluidos.eu"

func uri(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	runtest.Check(t, err)
	return u
}

func newKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	runtest.Check(t, err)
	return key
}

func newRSAKey(t testing.TB, bits int) crypto.Signer {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	runtest.Check(t, err)
	return key
}

// asked returns a request in PEM form: a valid one of rome, changed by edits.
func asked(t testing.TB, key crypto.Signer, edits ...func(*x509.CertificateRequest)) string {
	t.Helper()
	template := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "rome"}, URIs: []*url.URL{uri(t, "spiffe://fluidos.eu/cluster/rome")},
	}
	for _, edit := range edits {
		edit(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	runtest.Check(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}))
}

type edit = func(*x509.CertificateRequest)

func TestCheckRequest(t *testing.T) {
	key := newKey(t, elliptic.P256())
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	runtest.Check(t, err)
	withURI := func(texts ...string) edit {
		return func(r *x509.CertificateRequest) {
			r.URIs = nil
			for _, text := range texts {
				r.URIs = append(r.URIs, uri(t, text))
			}
		}
	}
	withExtension := func(oid asn1.ObjectIdentifier, value []byte) edit {
		return func(r *x509.CertificateRequest) {
			r.ExtraExtensions = append(r.ExtraExtensions, pkix.Extension{Id: oid, Value: value})
		}
	}
	// otherName adds a registered ID, a type of name that Go's parser ignores.
	otherName := func(r *x509.CertificateRequest) {
		value, err := asn1.Marshal([]asn1.RawValue{
			{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte("spiffe://fluidos.eu/cluster/rome")},
			{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a, 0x03}},
		})
		runtest.Check(t, err)
		r.URIs = nil
		withExtension(oidAlternativeName, value)(r)
	}
	challenge := func(r *x509.CertificateRequest) {
		r.Attributes = []pkix.AttributeTypeAndValueSET{{ //nolint:staticcheck // the field under test
			Type:  asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7},
			Value: [][]pkix.AttributeTypeAndValue{{{Type: asn1.ObjectIdentifier{1, 2, 3}, Value: "secret"}}},
		}}
	}
	cases := map[string]struct {
		text string
		// want lists parts of the error; none for a valid request.
		want []string
	}{
		"P-256":         {text: asked(t, key)},
		"P-384":         {text: asked(t, newKey(t, elliptic.P384()))},
		"Ed25519":       {text: asked(t, ed)},
		"RSA 2048":      {text: asked(t, newRSAKey(t, 2048))},
		"blanks around": {text: "\n" + asked(t, key) + "\n\n"},
		"a critical alternative name": {text: asked(t, key, withURI(), func(r *x509.CertificateRequest) {
			value, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte("spiffe://fluidos.eu/cluster/rome")}})
			runtest.Check(t, err)
			r.ExtraExtensions = []pkix.Extension{{Id: oidAlternativeName, Critical: true, Value: value}}
		})},

		"no PEM":                       {text: "x", want: []string{"PEM"}},
		"nothing":                      {text: "", want: []string{"PEM"}},
		"a certificate":                {text: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}})), want: []string{"CERTIFICATE REQUEST"}},
		"two requests":                 {text: asked(t, key) + asked(t, key), want: []string{"trailing data"}},
		"no request within":            {text: string(pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: []byte{1}})), want: []string{"cannot be parsed"}},
		"P-521":                        {text: asked(t, newKey(t, elliptic.P521())), want: []string{"P-521", "P-256"}},
		"P-224":                        {text: asked(t, newKey(t, elliptic.P224())), want: []string{"P-224"}},
		"RSA 1024":                     {text: asked(t, newRSAKey(t, 1024)), want: []string{"1024", "2048"}},
		"another cluster's name":       {text: asked(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = "paris" }), want: []string{`"paris"`, `"rome"`}},
		"no name":                      {text: asked(t, key, func(r *x509.CertificateRequest) { r.Subject.CommonName = "" }), want: []string{"only the common name"}},
		"an organization":              {text: asked(t, key, func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }), want: []string{"system:masters"}},
		"two names":                    {text: asked(t, key, twoNames), want: []string{"only the common name"}},
		"no alternative name":          {text: asked(t, key, withURI()), want: []string{"spiffe://fluidos.eu/cluster/rome"}},
		"another trust domain":         {text: asked(t, key, withURI("spiffe://evil.eu/cluster/rome")), want: []string{"evil.eu", "spiffe://fluidos.eu/cluster/rome"}},
		"another cluster's URI":        {text: asked(t, key, withURI("spiffe://fluidos.eu/cluster/paris")), want: []string{"paris"}},
		"two URIs":                     {text: asked(t, key, withURI("spiffe://fluidos.eu/cluster/rome", "spiffe://fluidos.eu/cluster/paris")), want: []string{"paris"}},
		"the URI twice":                {text: asked(t, key, withURI("spiffe://fluidos.eu/cluster/rome", "spiffe://fluidos.eu/cluster/rome")), want: []string{"only the URI"}},
		"a DNS name":                   {text: asked(t, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"broker.example.com"} }), want: []string{"broker.example.com"}},
		"an address":                   {text: asked(t, key, func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }), want: []string{"10.0.0.1"}},
		"an e-mail address":            {text: asked(t, key, func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b.eu"} }), want: []string{"a@b.eu"}},
		"a name of an unknown kind":    {text: asked(t, key, otherName), want: []string{"only the URI"}},
		"to be a CA":                   {text: asked(t, key, withExtension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 0x03, 0x01, 0x01, 0xff})), want: []string{"2.5.29.19"}},
		"to sign certificates":         {text: asked(t, key, withExtension(asn1.ObjectIdentifier{2, 5, 29, 15}, []byte{0x03, 0x02, 0x02, 0x04})), want: []string{"2.5.29.15"}},
		"to be a server":               {text: asked(t, key, withExtension(asn1.ObjectIdentifier{2, 5, 29, 37}, []byte{0x30, 0x0a, 0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 3, 1})), want: []string{"2.5.29.37"}},
		"a private extension":          {text: asked(t, key, withExtension(asn1.ObjectIdentifier{1, 2, 3, 4}, []byte{5, 0})), want: []string{"1.2.3.4"}},
		"a second attribute":           {text: asked(t, key, challenge), want: []string{"2 attributes"}},
		"the signature of another key": {text: forged(t, key), want: []string{"signature"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := CheckRequest(tc.text, "rome", trustDomain)
			if tc.want == nil {
				runtest.Check(t, err)
				checkRequestOf(t, got, tc.text)
				return
			}
			if fault.ReasonOf(err) != fault.InvalidCSR {
				t.Fatalf("got %+v, %v; want %s", got, err, fault.InvalidCSR)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// checkRequestOf compares a result with what crypto/x509 reads from text.
func checkRequestOf(t *testing.T, got *Request, text string) {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	runtest.Check(t, err)
	kept, rest := pem.Decode(got.PEM)
	if kept == nil || !bytes.Equal(kept.Bytes, block.Bytes) || len(rest) > 0 {
		t.Errorf("kept %q of %q", got.PEM, text)
	}
	if want := pki.SPKIHash(csr.RawSubjectPublicKeyInfo); got.Fingerprint != want || got.ClusterID != "rome" {
		t.Errorf("got cluster %q with key %s, want rome with %s", got.ClusterID, got.Fingerprint, want)
	}
}

func twoNames(r *x509.CertificateRequest) {
	r.RawSubject, _ = asn1.Marshal(pkix.RDNSequence{
		{{Type: oidCommonName, Value: "rome"}}, {{Type: oidCommonName, Value: "rome"}},
	})
}

// forged returns a request whose signature was damaged.
func forged(t *testing.T, key crypto.Signer) string {
	t.Helper()
	block, _ := pem.Decode([]byte(asked(t, key)))
	signature := block.Bytes[len(block.Bytes)-8:]
	for i := range signature {
		signature[i] ^= 0xff
	}
	return string(pem.EncodeToMemory(block))
}

func TestCheckRequestRefusesInvalidClusterID(t *testing.T) {
	for _, id := range []string{"", "Rome", "rome.it", "-rome", strings.Repeat("r", 41)} {
		_, err := CheckRequest("", id, trustDomain)
		if fault.ReasonOf(err) != fault.InvalidCSR || !strings.Contains(err.Error(), "DNS label") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A person without an agent makes the request with openssl, here with version 3.0:
//
//	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout tls.key -out openssl.csr \
//	  -subj /CN=rome -addext subjectAltName=URI:spiffe://fluidos.eu/cluster/rome
func TestCheckRequestAcceptsOpenSSL(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "openssl.csr"))
	runtest.Check(t, err)
	if _, err := CheckRequest(string(text), "rome", trustDomain); err != nil {
		t.Error(err)
	}
}

// FuzzCheckRequest checks that an accepted request asks for the cluster's certificate and nothing
// else, according to crypto/x509.
func FuzzCheckRequest(f *testing.F) {
	key := newKey(f, elliptic.P256())
	f.Add(asked(f, key))
	f.Add(asked(f, key, func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }))
	f.Add(asked(f, key, twoNames))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := CheckRequest(text, "rome", trustDomain)
		if err != nil {
			if fault.ReasonOf(err) != fault.InvalidCSR {
				t.Errorf("error without reason: %v", err)
			}
			return
		}
		block, _ := pem.Decode(got.PEM)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		runtest.Check(t, err)
		if csr.Subject.String() != "CN=rome" || len(csr.Extensions) != 1 || len(csr.URIs) != 1 ||
			csr.URIs[0].String() != "spiffe://fluidos.eu/cluster/rome" || csr.CheckSignature() != nil {
			t.Errorf("accepted %+v", csr)
		}
	})
}
