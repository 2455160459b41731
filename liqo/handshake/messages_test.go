package handshake

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
)

func answerOf(t *testing.T, k handshaketest.KeyPair, as string, nonce []byte) *Answer {
	t.Helper()
	csr, err := authentication.GenerateCSRForControlPlane(k.Private, liqov1beta1.ClusterID(as))
	runtest.Check(t, err)
	signature, err := authentication.SignNonce(k.Private, nonce)
	runtest.Check(t, err)
	return &Answer{TenantNamespace: "liqo-tenant-paris", PublicKey: k.PEM, CSR: csr, Signature: signature}
}

func TestOnlyKeyHolderIsAnswered(t *testing.T) {
	rome, other := handshaketest.NewKeyPair(t), handshaketest.NewKeyPair(t)
	nonce := []byte("nonce of paris for rome")
	twoOrganisations := func(a *Answer) {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io", "system:masters"}},
		}, rome.Private)
		runtest.Check(t, err)
		a.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	tests := map[string]struct {
		change func(*Answer)
		ok     bool
	}{
		"the consumer itself":                    {change: func(*Answer) {}, ok: true},
		"no key":                                 {change: func(a *Answer) { a.PublicKey = nil }},
		"a key that is none":                     {change: func(a *Answer) { a.PublicKey = []byte("key") }},
		"another key than the request's":         {change: func(a *Answer) { a.PublicKey = other.PEM }},
		"another cluster's request":              {change: func(a *Answer) { a.CSR = answerOf(t, rome, "berlin", nonce).CSR }},
		"a request for a second group":           {change: twoOrganisations},
		"no request":                             {change: func(a *Answer) { a.CSR = nil }},
		"a signature of another nonce":           {change: func(a *Answer) { a.Signature = answerOf(t, rome, "rome", []byte("old")).Signature }},
		"a signature by another key":             {change: func(a *Answer) { a.Signature = answerOf(t, other, "rome", nonce).Signature }},
		"everything of another cluster":          {change: func(a *Answer) { *a = *answerOf(t, other, "berlin", nonce) }},
		"another key that claims to be the same": {change: func(a *Answer) { *a = *answerOf(t, other, "rome", nonce) }, ok: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := answerOf(t, rome, "rome", nonce)
			test.change(answer)
			if err := CheckAnswer(answer, nonce, "rome"); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
		})
	}
}

func TestCredentialsMustFitThisCluster(t *testing.T) {
	rome, other := handshaketest.NewKeyPair(t), handshaketest.NewKeyPair(t)
	tests := map[string]struct {
		change func(*Credentials)
		ok     bool
	}{
		"for this cluster and its key":   {change: func(*Credentials) {}, ok: true},
		"for another key":                {change: func(c *Credentials) { c.SignedCRT = other.Certificate(t, "rome") }},
		"for another cluster":            {change: func(c *Credentials) { c.SignedCRT = rome.Certificate(t, "berlin") }},
		"no certificate":                 {change: func(c *Credentials) { c.SignedCRT = nil }},
		"an API server without TLS":      {change: func(c *Credentials) { c.APIServer = "http://paris.example" }},
		"an API server that is nowhere":  {change: func(c *Credentials) { c.APIServer = "https://" }},
		"no tenant namespace":            {change: func(c *Credentials) { c.TenantNamespace = "" }},
		"a public CA, so none is needed": {change: func(c *Credentials) { c.CA = nil }, ok: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &Credentials{
				TenantNamespace: "liqo-tenant-rome", APIServer: "https://paris.example:6443",
				CA: other.Certificate(t, "ca"), SignedCRT: rome.Certificate(t, "rome"),
			}
			test.change(c)
			if err := CheckCredentials(c, rome.DER, "rome"); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %v", err, test.ok)
			}
		})
	}
}

func TestMessageIsReadOnlyByRecipient(t *testing.T) {
	base := Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: "e", Step: StepChallenge}
	tests := map[string]struct {
		change       func(*Message)
		signer, self string
		ok           bool
	}{
		"a challenge from the provider":           {signer: "paris", self: "rome", ok: true},
		"a challenge from another cluster":        {signer: "berlin", self: "rome"},
		"a challenge from the consumer itself":    {signer: "rome", self: "rome"},
		"a challenge for another consumer":        {signer: "paris", self: "berlin"},
		"an answer from the consumer":             {change: func(m *Message) { m.Step = StepAnswer }, signer: "rome", self: "paris", ok: true},
		"an answer from the provider":             {change: func(m *Message) { m.Step = StepAnswer }, signer: "paris", self: "rome"},
		"a request, which has no epoch":           {change: func(m *Message) { m.Step, m.Epoch = StepRequest, "" }, signer: "rome", self: "paris", ok: true},
		"credentials without an epoch":            {change: func(m *Message) { m.Step, m.Epoch = StepCredentials, "" }, signer: "paris", self: "rome"},
		"a message for no placement":              {change: func(m *Message) { m.Placement = "" }, signer: "paris", self: "rome"},
		"a step that is none":                     {change: func(m *Message) { m.Step = 4 }, signer: "paris", self: "rome"},
		"a cluster that peers with itself":        {change: func(m *Message) { m.Consumer = "paris" }, signer: "paris", self: "paris"},
		"credentials that answer another cluster": {change: func(m *Message) { m.Step, m.Consumer = StepCredentials, "berlin" }, signer: "paris", self: "rome"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := base
			if test.change != nil {
				test.change(&m)
			}
			payload, digest, err := Encode(&m, Challenge{TenantNamespace: "ns", Nonce: []byte("n")})
			runtest.Check(t, err)
			got, err := decodeMessage(payload, test.signer, test.self)
			if (err == nil) != test.ok {
				t.Fatalf("got %v, want ok %v", err, test.ok)
			}
			if err == nil && (got.clusterPair() != m.clusterPair() || digestOf(payload) != digest) {
				t.Errorf("got %+v with digest %s, want %+v with %s", got, digestOf(payload), m, digest)
			}
		})
	}
}

func TestEpochChangesWithNonceAndNamespace(t *testing.T) {
	first := EpochOf("uid", []byte("nonce"))
	if first != EpochOf("uid", []byte("nonce")) {
		t.Error("the same nonce in the same namespace is another epoch after a restart")
	}
	for _, other := range []string{EpochOf("uid2", []byte("nonce")), EpochOf("uid", []byte("nonce2")), EpochOf("uidn", []byte("once"))} {
		if other == first {
			t.Error("another handshake has the same epoch")
		}
	}
}
