package liqo

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
)

func TestSigningRequestHasExactlyOneSubject(t *testing.T) {
	rome := newKeyPair(t)
	want := subject{organisation: "rome", commonName: "res-a-1-a8a4c692b93b"}
	name := want.name()
	good := rome.request(t, &x509.CertificateRequest{Subject: name})
	o, cn := part(oidOrganisation, "rome"), part(oidCommonName, want.commonName)
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
		"a second organisation":         {csr: rome.requestFor(t, rdn(o), rdn(part(oidOrganisation, "system:masters")), rdn(cn)), problem: "want exactly"},
		"a second one before":           {csr: rome.requestFor(t, rdn(part(oidOrganisation, "system:masters")), rdn(o), rdn(cn)), problem: "want exactly"},
		"the same organisation twice":   {csr: rome.requestFor(t, rdn(o), rdn(o), rdn(cn)), problem: "want exactly"},
		"two organisations in one name": {csr: rome.requestFor(t, rdn(o, part(oidOrganisation, "system:masters")), rdn(cn)), problem: "want exactly"},
		"organisation and user in one":  {csr: rome.requestFor(t, rdn(o, cn)), problem: "want exactly"},
		"another organisation":          {csr: rome.requestFor(t, rdn(part(oidOrganisation, "paris")), rdn(cn)), problem: "want exactly"},
		"no organisation":               {csr: rome.requestFor(t, rdn(cn)), problem: "want exactly"},
		"a second user":                 {csr: rome.requestFor(t, rdn(o), rdn(part(oidCommonName, "admin")), rdn(cn)), problem: "want exactly"},
		"another user":                  {csr: rome.requestFor(t, rdn(o), rdn(part(oidCommonName, "res-b-1-a8a4c692b93b"))), problem: "want exactly"},
		"no user":                       {csr: rome.requestFor(t, rdn(o)), problem: "want exactly"},
		"the other order":               {csr: rome.requestFor(t, rdn(cn), rdn(o)), problem: "want exactly"},
		"a unit":                        {csr: rome.requestFor(t, rdn(o), rdn(part(oidUnit, "kubeadm")), rdn(cn)), problem: "want exactly"},
		"an unknown attribute":          {csr: rome.requestFor(t, rdn(o), rdn(part(asn1.ObjectIdentifier{1, 2, 3}, "x")), rdn(cn)), problem: "want exactly"},
		"another kind of text":          {csr: rome.requestFor(t, rdn(part(oidOrganisation, asn1Text(asn1.TagIA5String, "rome"))), rdn(cn)), problem: "want exactly"},
		"no subject":                    {csr: rome.requestFor(t), problem: "want exactly"},
		"a DNS name":                    {csr: rome.request(t, &x509.CertificateRequest{Subject: name, DNSNames: []string{"kubernetes"}}), problem: "extension"},
		"an address":                    {csr: rome.request(t, &x509.CertificateRequest{Subject: name, IPAddresses: []net.IP{{10, 0, 0, 1}}}), problem: "extension"},
		"a mail address":                {csr: rome.request(t, &x509.CertificateRequest{Subject: name, EmailAddresses: []string{"a@b"}}), problem: "extension"},
		"a CA":                          {csr: rome.request(t, &x509.CertificateRequest{Subject: name, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}}), problem: "extension"},
		"a challenge password":          {csr: withAttribute(t, rome, name), problem: "attributes"},
		"a signature of another":        {csr: encodeRequest(forged), problem: "not signed by its own key"},
		"something before":              {csr: append([]byte("x\n"), good...), problem: "more than one"},
		"something after":               {csr: append(bytes.Clone(good), "x"...), problem: "more than one"},
		"two requests":                  {csr: append(bytes.Clone(good), good...), problem: "more than one"},
		"headers":                       {csr: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"a": "b"}, Bytes: block.Bytes}), problem: "no CERTIFICATE REQUEST"},
		"another PEM type":              {csr: pem.EncodeToMemory(&pem.Block{Type: "NEW CERTIFICATE REQUEST", Bytes: block.Bytes}), problem: "no CERTIFICATE REQUEST"},
		"bytes behind the request":      {csr: encodeRequest(append(bytes.Clone(block.Bytes), 0)), problem: "trailing data"},
		"DER":                           {csr: block.Bytes, problem: "no CERTIFICATE REQUEST"},
		"nothing":                       {csr: nil, problem: "no CERTIFICATE REQUEST"},
		"too much":                      {csr: bytes.Repeat([]byte("a"), maxSigningRequest+1), problem: "at most 8192"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { wantProblem(t, checkSigningRequest(test.csr, want), test.problem) })
	}
}

// withAttribute makes a request with an attribute that Go does not show.
func withAttribute(t *testing.T, k keyPair, name pkix.Name) []byte {
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
	if err != nil {
		t.Fatal(err)
	}
	tbs, err := asn1.Marshal(info{
		Subject: asn1.RawValue{FullBytes: subject}, PublicKey: asn1.RawValue{FullBytes: k.der},
		Attributes: []attribute{{ID: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, Values: []string{"secret"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	signature, err := k.private.Sign(rand.Reader, tbs, crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	der, err := asn1.Marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		TBS: asn1.RawValue{FullBytes: tbs}, Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 112}},
		Signature: asn1.BitString{Bytes: signature, BitLength: len(signature) * 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	return encodeRequest(der)
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
