package liqo

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

var (
	oidOrganisation = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidUnit         = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
)

func encodeRequest(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func (k keyPair) request(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, k.private)
	if err != nil {
		t.Fatal(err)
	}
	return encodeRequest(der)
}

// requestFor makes a request with a subject of these relative names.
func (k keyPair) requestFor(t *testing.T, names ...pkix.RelativeDistinguishedNameSET) []byte {
	t.Helper()
	raw, err := asn1.Marshal(pkix.RDNSequence(names))
	if err != nil {
		t.Fatal(err)
	}
	return k.request(t, &x509.CertificateRequest{RawSubject: raw})
}

func rdn(parts ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET { return parts }

func part(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func TestSigningRequestHasExactlyOneSubject(t *testing.T) {
	rome := newKeyPair(t)
	want := subject{organisation: "rome", commonName: "res-a-1" + ofRome}
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
		"another user":                  {csr: rome.requestFor(t, rdn(o), rdn(part(oidCommonName, "res-b-1"+ofRome))), problem: "want exactly"},
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

func TestSlicesAreSignedForLiveReservationsAlone(t *testing.T) {
	w := newWorld(t)
	paris, rome := w.sites["paris"], newKeyPair(t)
	w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: TenantNamespaceName("rome"), Labels: tenantNamespaceLabels("rome")}}))
	w.check(paris.client.Create(t.Context(), tenantOf("rome", TenantNamespaceName("rome"), rome.pem)))
	byHand := map[string]string{consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"}
	w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Labels: byHand}}))
	w.check(paris.client.Create(t.Context(), tenantOf("oslo", "by-hand", rome.pem)))
	w.reserve("rome", "paris", "res-a")
	w.reserve("rome", "paris", "res-ended")
	w.reserve("rome", "paris", "res-unanswered")
	change := func(name string, change func(*agentv1alpha1.ProviderInstruction)) {
		inst := &agentv1alpha1.ProviderInstruction{}
		w.exists("paris", "default", name, inst)
		change(inst)
		w.check(paris.client.Update(t.Context(), inst))
		change(inst) // the update returned the earlier status
		w.check(paris.client.Status().Update(t.Context(), inst))
	}
	change("res-ended-1", func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release = true })
	change("res-unanswered-1", func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced = false })

	slice := func(consumer, name string) *authv1beta1.ResourceSlice {
		s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.ConsumerClusterID = new(liqov1beta1.ClusterID(consumer))
		csr, err := authentication.GenerateCSRForResourceSlice(rome.private, s)
		w.check(err)
		s.Spec.CSR = csr
		return s
	}
	controlPlane := func(consumer string) []byte {
		csr, err := authentication.GenerateCSRForControlPlane(rome.private, liqov1beta1.ClusterID(consumer))
		w.check(err)
		return csr
	}
	asSlice := func(consumer, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return paris.peering.CheckSliceSigning(ctx, consumer, slice(consumer, name))
		}
	}
	asRequest := func(csr []byte) func(context.Context) error {
		return func(ctx context.Context) error { return paris.peering.CheckSigning(ctx, csr) }
	}
	stranger := newKeyPair(t)
	byStranger := slice("rome", "res-a-1")
	byStranger.Spec.CSR = stranger.request(t, &x509.CertificateRequest{Subject: subject{organisation: "rome", commonName: "res-a-1" + ofRome}.name()})
	other := slice("rome", "res-b-1")
	other.Name = "res-a-1"
	tests := map[string]struct {
		check   func(context.Context) error
		problem string
	}{
		"a slice of a reservation": {check: asSlice("rome", "res-a-1")},
		"a slice that asks for nothing yet": {check: func(ctx context.Context) error {
			return paris.peering.CheckSliceSigning(ctx, "rome", &authv1beta1.ResourceSlice{})
		}},
		"a slice of none":                           {check: asSlice("rome", "flood-1"), problem: "no live reservation"},
		"a slice of an ended one":                   {check: asSlice("rome", "res-ended-1"), problem: "no live reservation"},
		"a slice of one that was not acknowledged":  {check: asSlice("rome", "res-unanswered-1"), problem: "no live reservation"},
		"a slice of another consumer's":             {check: asSlice("oslo", "res-a-1"), problem: "no live reservation"},
		"a slice that names another slice":          {check: func(ctx context.Context) error { return paris.peering.CheckSliceSigning(ctx, "rome", other) }, problem: "want exactly"},
		"a slice by another key":                    {check: func(ctx context.Context) error { return paris.peering.CheckSliceSigning(ctx, "rome", byStranger) }, problem: "not by the key"},
		"the request by another key":                {check: asRequest(byStranger.Spec.CSR), problem: "not by the key"},
		"the request for it":                        {check: asRequest(slice("rome", "res-a-1").Spec.CSR)},
		"the request for an ended one":              {check: asRequest(slice("rome", "res-ended-1").Spec.CSR), problem: "no live reservation"},
		"the request for one of none":               {check: asRequest(slice("rome", "flood-1").Spec.CSR), problem: "no live reservation"},
		"the request of a peer that is not guarded": {check: asRequest(slice("oslo", "any").Spec.CSR)},
		"the request of a stranger":                 {check: asRequest(slice("bergen", "res-a-1").Spec.CSR), problem: "no Tenant"},
		"the request for a control plane":           {check: asRequest(controlPlane("rome"))},
		"the request for a stranger's":              {check: asRequest(controlPlane("bergen")), problem: "no Tenant"},
		"a request for an administrator": {
			check:   asRequest(rome.requestFor(t, rdn(part(oidOrganisation, "system:masters")), rdn(part(oidCommonName, "rome")))),
			problem: "is no slice of",
		},
		"a request for a control plane and more": {
			check:   asRequest(rome.requestFor(t, rdn(part(oidOrganisation, "liqo.io")), rdn(part(oidOrganisation, "system:masters")), rdn(part(oidCommonName, "rome")))),
			problem: "want exactly",
		},
		"a request without organisation": {check: asRequest(rome.requestFor(t, rdn(part(oidCommonName, "rome")))), problem: "no organisation"},
		"what is no request":             {check: asRequest([]byte("x")), problem: "no CERTIFICATE REQUEST"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.check(t.Context())
			wantProblem(t, err, test.problem)
			if refusal := (*Refusal)(nil); test.problem != "" && !errors.As(err, &refusal) {
				t.Errorf("%v is no refusal", err)
			}
		})
	}
}

func tenantOf(consumer, namespace string, publicKey []byte) *authv1beta1.Tenant {
	return &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: consumer},
		Spec:       authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(consumer), PublicKey: publicKey},
	}
}
