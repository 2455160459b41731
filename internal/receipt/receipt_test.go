package receipt_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var testTime = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func newAgreement() *receipt.Agreement {
	return &receipt.Agreement{
		Reservation: "res-k3v9x2m7qa", Placement: 1, Requester: "rome", Provider: "paris", State: receipt.Held,
		Resources: map[string]string{"cpu": "4", "memory": "8Gi"},
		Price:     &receipt.Price{Currency: "EUR", PerHour: "0.8", Rates: map[string]string{"cpu": "0.2"}},
		HeldSince: testTime, Until: receipt.Instant(testTime.Add(2 * time.Hour)),
	}
}

var testPlace = receipt.Place{ID: "7d3f", Position: 42, Hash: strings.Repeat("ab", 32)}

// newSigner returns a signer with a server certificate of the authority.
func newSigner(t testing.TB, a *pkitest.Authority) *receipt.Signer {
	t.Helper()
	cert := pkitest.Parse(t)(a.IssueServer([]string{"broker.example.com"}, nil))
	cert.Certificate = append(cert.Certificate, a.Certificate().Raw)
	return signerWith(cert)
}

func signerWith(cert tls.Certificate) *receipt.Signer {
	credentials := &pki.Credentials{Certificate: cert}
	return receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil })
}

func mustSign(t testing.TB, s *receipt.Signer, a *receipt.Agreement) *brokerv1alpha1.Receipt {
	t.Helper()
	r, err := s.Sign(a, testPlace, testTime)
	runtest.Check(t, err)
	return r
}

func TestReceiptProvesWhatWasSigned(t *testing.T) {
	root := pkitest.New(t, "servers", testTime)
	middle, err := root.Intermediate("middle")
	runtest.Check(t, err)
	for name, issuer := range map[string]*pkitest.Authority{"signed by the root": root, "signed by an intermediate": middle} {
		t.Run(name, func(t *testing.T) {
			r := mustSign(t, newSigner(t, issuer), newAgreement())
			got, signer, err := receipt.Verify(r, root.Pool())
			runtest.Check(t, err)
			want := &receipt.Statement{Agreement: *newAgreement(), SignedAt: testTime, Journal: testPlace}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"broker.example.com"}, signer.DNSNames); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReceiptOfAnExpiredCertificateStaysValid(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	r, err := newSigner(t, a).Sign(newAgreement(), testPlace, testTime)
	runtest.Check(t, err)
	if _, _, err := receipt.Verify(r, a.Pool()); err != nil {
		t.Errorf("years later: %v", err)
	}
	late, err := newSigner(t, a).Sign(newAgreement(), testPlace, testTime.AddDate(50, 0, 0))
	runtest.Check(t, err)
	if _, _, err := receipt.Verify(late, a.Pool()); err == nil {
		t.Error("a receipt that was signed after the certificate had expired is valid")
	}
}

func TestReceiptsOfOthersAreRefused(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	client := signerWith(pkitest.Parse(t)(a.IssueClient("rome", "")))
	envelope, err := pki.Sign([]byte(mustSign(t, newSigner(t, a), newAgreement()).Statement), pkitest.Parse(t)(a.IssueServer([]string{"broker"}, nil)))
	runtest.Check(t, err)
	var signed struct {
		Payload      []byte   `json:"payload"`
		Certificates [][]byte `json:"certificates"`
		Signature    []byte   `json:"signature"`
	}
	runtest.Check(t, json.Unmarshal(envelope, &signed))
	cases := map[string]*brokerv1alpha1.Receipt{
		"another CA":                            mustSign(t, newSigner(t, pkitest.New(t, "others", testTime)), newAgreement()),
		"the certificate of a member":           mustSign(t, client, newAgreement()),
		"a signature that is about an envelope": {Statement: string(signed.Payload), Certificates: signed.Certificates, Signature: signed.Signature},
		"no certificate":                        {Statement: mustSign(t, client, newAgreement()).Statement, Signature: []byte{1}},
	}
	for name, r := range cases {
		if s, _, err := receipt.Verify(r, a.Pool()); err == nil {
			t.Errorf("%s: accepted as %+v", name, s)
		}
	}
	if _, _, err := receipt.Verify(mustSign(t, newSigner(t, a), newAgreement()), nil); err == nil {
		t.Error("accepted without a CA")
	}
}

// Any changed bit of the statement, the certificates or the signature invalidates a receipt.
func TestEveryChangedByteOfAReceiptIsRefused(t *testing.T) {
	root := pkitest.New(t, "servers", testTime)
	middle, err := root.Intermediate("middle")
	runtest.Check(t, err)
	genuine := mustSign(t, newSigner(t, middle), newAgreement())
	if _, _, err := receipt.Verify(genuine, root.Pool()); err != nil {
		t.Fatal(err)
	}
	tried := 0
	flip := func(where string, part []byte, verify func([]byte) error) {
		for i := range part {
			for bit := range 8 {
				forged := bytes.Clone(part)
				forged[i] ^= 1 << bit
				if tried++; verify(forged) == nil {
					t.Errorf("%s: bit %d of byte %d can be changed", where, bit, i)
				}
			}
		}
	}
	verify := func(r brokerv1alpha1.Receipt) error {
		_, _, err := receipt.Verify(&r, root.Pool())
		return err
	}
	flip("statement", []byte(genuine.Statement), func(b []byte) error {
		return verify(brokerv1alpha1.Receipt{Statement: string(b), Certificates: genuine.Certificates, Signature: genuine.Signature})
	})
	flip("signature", genuine.Signature, func(b []byte) error {
		return verify(brokerv1alpha1.Receipt{Statement: genuine.Statement, Certificates: genuine.Certificates, Signature: b})
	})
	for i := range genuine.Certificates {
		flip(fmt.Sprintf("certificate %d", i), genuine.Certificates[i], func(b []byte) error {
			chain := slices.Clone(genuine.Certificates)
			chain[i] = b
			return verify(brokerv1alpha1.Receipt{Statement: genuine.Statement, Certificates: chain, Signature: genuine.Signature})
		})
	}
	longer := *genuine
	longer.Certificates = append(slices.Clone(genuine.Certificates), root.Certificate().Raw)
	if verify(longer) == nil {
		t.Error("a certificate can be added")
	}
	t.Logf("%d changes are refused", tried)
}

func TestSignerFollowsARotatedKey(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	issue := func() *pki.Credentials {
		return &pki.Credentials{Certificate: pkitest.Parse(t)(a.IssueServer([]string{"broker"}, nil))}
	}
	present := issue()
	s := receipt.NewSigner(func() (*pki.Credentials, error) { return present, nil })
	before := mustSign(t, s, newAgreement())
	present = issue()
	after := mustSign(t, s, newAgreement())
	if bytes.Equal(before.Certificates[0], after.Certificates[0]) {
		t.Error("the former certificate is still used")
	}
	for _, r := range []*brokerv1alpha1.Receipt{before, after} {
		if _, _, err := receipt.Verify(r, a.Pool()); err != nil {
			t.Error(err)
		}
	}
}

func instructionOf(a *receipt.Agreement, r *brokerv1alpha1.Receipt) *v1.Instruction {
	left := 7200.0
	return &v1.Instruction{
		Reservation: a.Reservation, Placement: a.Placement, Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold,
		ConsumerID: a.Requester, ProviderID: a.Provider, Resources: v1.Amounts(a.Resources), RemainingSeconds: &left, Receipt: r,
	}
}

func TestCheckerComparesReceiptAndInstruction(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	signer := newSigner(t, a)
	checker := &receipt.Checker{Roots: func() (*x509.CertPool, error) { return a.Pool(), nil }, ClusterID: "rome"}
	kept := mustSign(t, signer, newAgreement())
	sign := func(change func(*receipt.Agreement)) *brokerv1alpha1.Receipt {
		forged := newAgreement()
		change(forged)
		return mustSign(t, signer, forged)
	}
	cases := map[string]struct {
		receipt *brokerv1alpha1.Receipt
		late    time.Duration
		edit    func(*v1.Instruction)
		want    string
	}{
		"the agreement":           {receipt: kept},
		"none":                    {want: "no receipt"},
		"another amount":          {receipt: sign(func(a *receipt.Agreement) { a.Resources["cpu"] = "400" }), want: "cpu:400"},
		"another requester":       {receipt: sign(func(a *receipt.Agreement) { a.Requester = "oslo" }), want: `names "oslo" where`},
		"another provider":        {receipt: sign(func(a *receipt.Agreement) { a.Provider = "oslo" }), want: `provider "oslo"`},
		"another placement":       {receipt: sign(func(a *receipt.Agreement) { a.Placement = 2 }), want: "res-k3v9x2m7qa-2"},
		"another reservation":     {receipt: sign(func(a *receipt.Agreement) { a.Reservation = "res-a" }), want: "res-a-1"},
		"no end":                  {receipt: sign(func(a *receipt.Agreement) { a.Until = nil }), want: "has an end"},
		"an end before it is one": {receipt: sign(func(a *receipt.Agreement) { a.State, a.EndedAt = receipt.Ended, receipt.Instant(testTime) }), want: "Ended"},
		"another CA":              {receipt: mustSign(t, newSigner(t, pkitest.New(t, "others", testTime)), newAgreement()), want: "unknown authority"},
		"an old one":              {receipt: kept, late: time.Hour, want: "1h0m0s from the clock"},
		"one for another cluster": {receipt: kept, edit: func(in *v1.Instruction) { in.Role = v1.InstructionRoleProvider }, want: `names "paris" where`},
		"a change that the provider has not agreed to": {receipt: kept, edit: func(in *v1.Instruction) {
			in.Resources, in.Change = v1.Amounts{"cpu": "9"}, 2
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := instructionOf(newAgreement(), tc.receipt)
			if tc.edit != nil {
				tc.edit(in)
			}
			before := &brokerv1alpha1.Receipt{Statement: "kept"}
			got, err := checker.Choose(in, before, testTime.Add(tc.late))
			if tc.want == "" {
				if err != nil || got != tc.receipt {
					t.Errorf("not accepted: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != before {
				t.Errorf("got %v, want an error with %q, and the kept receipt", err, tc.want)
			}
		})
	}
}

func TestCheckerKeepsTheReceiptOfTheSameAgreement(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	checker := &receipt.Checker{Roots: func() (*x509.CertPool, error) { return a.Pool(), nil }}
	kept := mustSign(t, newSigner(t, a), newAgreement())
	again, err := newSigner(t, a).Sign(newAgreement(), receipt.Place{ID: "7d3f", Position: 99, Hash: strings.Repeat("cd", 32)}, testTime.Add(time.Minute))
	runtest.Check(t, err)
	got, err := checker.Choose(instructionOf(newAgreement(), again), kept, testTime)
	if err != nil || got != kept {
		t.Errorf("a receipt that says nothing new replaces the kept one, which is a write: %v", err)
	}
}

// FuzzRead checks that each readable text is the only encoding of its statement.
func FuzzRead(f *testing.F) {
	a := pkitest.New(f, "servers", testTime)
	f.Add(mustSign(f, newSigner(f, a), newAgreement()).Statement)
	f.Add(`{"agreement":{"reservation":"r","placement":1,"requester":"a","provider":"b","state":"Ended","resources":null,"heldSince":"2026-03-01T12:00:00Z","endedAt":"2026-03-01T12:00:00Z"},"signedAt":"2026-03-01T12:00:00Z","journal":{"id":"","position":0,"hash":""}}`)
	f.Add(`{"agreement":{}} `)
	signer := newSigner(f, a)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := receipt.Read(&brokerv1alpha1.Receipt{Statement: text, Certificates: [][]byte{{1}}})
		if err != nil {
			return
		}
		again, err := signer.Sign(&s.Agreement, s.Journal, s.SignedAt)
		if err != nil || again.Statement != text {
			t.Errorf("%q is read, but written as %q, %v", text, again.Statement, err)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s := newSigner(b, pkitest.New(b, "servers", testTime))
	agreement := newAgreement()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Sign(agreement, testPlace, testTime); err != nil {
			b.Fatal(err)
		}
	}
}
