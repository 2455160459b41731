package handshake

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
)

func TestSigningRequestHasExactlyOneSubject(t *testing.T) {
	rome := handshaketest.NewKeyPair(t)
	want := Subject{Organisation: "rome", CommonName: "res-a-1-a8a4c692b93b"}
	name := want.name()
	good := rome.Request(t, &x509.CertificateRequest{Subject: name})
	o, cn := handshaketest.Part(handshaketest.OIDOrganisation, "rome"), handshaketest.Part(handshaketest.OIDCommonName, want.CommonName)
	asn1Text := func(tag int, s string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(s)} }
	block, _ := pem.Decode(good)
	forged := bytes.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1

	tests := map[string]struct {
		csr []byte
		// problem is part of the error, "" for none.
		problem string
	}{
		"what Liqo makes is taken":      {csr: good},
		"a second organisation":         {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "system:masters")), handshaketest.RDN(cn)), problem: "want exactly"},
		"a second one before":           {csr: rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "system:masters")), handshaketest.RDN(o), handshaketest.RDN(cn)), problem: "want exactly"},
		"the same organisation twice":   {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(o), handshaketest.RDN(cn)), problem: "want exactly"},
		"two organisations in one name": {csr: rome.RequestFor(t, handshaketest.RDN(o, handshaketest.Part(handshaketest.OIDOrganisation, "system:masters")), handshaketest.RDN(cn)), problem: "want exactly"},
		"organisation and user in one":  {csr: rome.RequestFor(t, handshaketest.RDN(o, cn)), problem: "want exactly"},
		"another organisation":          {csr: rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, "paris")), handshaketest.RDN(cn)), problem: "want exactly"},
		"no organisation":               {csr: rome.RequestFor(t, handshaketest.RDN(cn)), problem: "want exactly"},
		"a second user":                 {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(handshaketest.Part(handshaketest.OIDCommonName, "admin")), handshaketest.RDN(cn)), problem: "want exactly"},
		"another user":                  {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(handshaketest.Part(handshaketest.OIDCommonName, "res-b-1-a8a4c692b93b"))), problem: "want exactly"},
		"no user":                       {csr: rome.RequestFor(t, handshaketest.RDN(o)), problem: "want exactly"},
		"the other order":               {csr: rome.RequestFor(t, handshaketest.RDN(cn), handshaketest.RDN(o)), problem: "want exactly"},
		"a unit":                        {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(handshaketest.Part(handshaketest.OIDUnit, "kubeadm")), handshaketest.RDN(cn)), problem: "want exactly"},
		"an unknown attribute":          {csr: rome.RequestFor(t, handshaketest.RDN(o), handshaketest.RDN(handshaketest.Part(asn1.ObjectIdentifier{1, 2, 3}, "x")), handshaketest.RDN(cn)), problem: "want exactly"},
		"another kind of text":          {csr: rome.RequestFor(t, handshaketest.RDN(handshaketest.Part(handshaketest.OIDOrganisation, asn1Text(asn1.TagIA5String, "rome"))), handshaketest.RDN(cn)), problem: "want exactly"},
		"no subject":                    {csr: rome.RequestFor(t), problem: "want exactly"},
		"a DNS name":                    {csr: rome.Request(t, &x509.CertificateRequest{Subject: name, DNSNames: []string{"kubernetes"}}), problem: "extension"},
		"an address":                    {csr: rome.Request(t, &x509.CertificateRequest{Subject: name, IPAddresses: []net.IP{{10, 0, 0, 1}}}), problem: "extension"},
		"a mail address":                {csr: rome.Request(t, &x509.CertificateRequest{Subject: name, EmailAddresses: []string{"a@b"}}), problem: "extension"},
		"a CA":                          {csr: rome.Request(t, &x509.CertificateRequest{Subject: name, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}}), problem: "extension"},
		"a challenge password":          {csr: withAttribute(t, rome, name), problem: "attributes"},
		"a signature of another":        {csr: handshaketest.EncodeRequest(forged), problem: "not signed by its own key"},
		"something before":              {csr: append([]byte("x\n"), good...), problem: "more than one"},
		"something after":               {csr: append(bytes.Clone(good), "x"...), problem: "more than one"},
		"two requests":                  {csr: append(bytes.Clone(good), good...), problem: "more than one"},
		"headers":                       {csr: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"a": "b"}, Bytes: block.Bytes}), problem: "not a CERTIFICATE REQUEST"},
		"another PEM type":              {csr: pem.EncodeToMemory(&pem.Block{Type: "NEW CERTIFICATE REQUEST", Bytes: block.Bytes}), problem: "not a CERTIFICATE REQUEST"},
		"bytes behind the request":      {csr: handshaketest.EncodeRequest(append(bytes.Clone(block.Bytes), 0)), problem: "trailing data"},
		"DER":                           {csr: block.Bytes, problem: "not a CERTIFICATE REQUEST"},
		"nothing":                       {csr: nil, problem: "not a CERTIFICATE REQUEST"},
		"too much":                      {csr: bytes.Repeat([]byte("a"), maxSigningRequest+1), problem: "at most 8192"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { wantProblem(t, CheckSigningRequest(test.csr, want), test.problem) })
	}
}

// withAttribute makes a request with an attribute that Go does not show.
func withAttribute(t *testing.T, k handshaketest.KeyPair, name pkix.Name) []byte {
	t.Helper()
	type attribute struct {
		ID     asn1.ObjectIdentifier
		Values []string `asn1:"set"`
	}
	type info struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []attribute `asn1:"tag:0"`
	}
	subject, err := asn1.Marshal(name.ToRDNSequence())
	runtest.Check(t, err)
	tbs, err := asn1.Marshal(info{
		Subject: asn1.RawValue{FullBytes: subject}, PublicKey: asn1.RawValue{FullBytes: k.DER},
		Attributes: []attribute{{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, Values: []string{"secret"}}},
	})
	runtest.Check(t, err)
	signature, err := k.Private.Sign(rand.Reader, tbs, crypto.Hash(0))
	runtest.Check(t, err)
	der, err := asn1.Marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		TBS: asn1.RawValue{FullBytes: tbs}, Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}},
		Signature: asn1.BitString{Bytes: signature, BitLength: len(signature) * 8},
	})
	runtest.Check(t, err)
	return handshaketest.EncodeRequest(der)
}

func wantProblem(t *testing.T, err error, problem string) {
	t.Helper()
	switch {
	case problem == "" && err != nil:
		t.Errorf("refused: %v", err)
	case problem != "" && err == nil:
		t.Errorf("taken, want an error about %q", problem)
	case problem != "" && !strings.Contains(err.Error(), problem):
		t.Errorf("error %q does not mention %q", err, problem)
	}
}
