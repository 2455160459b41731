package receipt_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestHeadProvesWhatWasSigned(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	signer := newSigner(t, a)
	signed, err := signer.SignHead(testPlace, testTime.Add(time.Hour))
	runtest.Check(t, err)
	h, by, err := receipt.VerifyHead(signed, a.Pool())
	if err != nil || *h != (receipt.Head{SignedAt: testTime.Add(time.Hour), Head: testPlace}) || by.DNSNames[0] != "broker.example.com" {
		t.Errorf("got %+v by %+v: %v", h, by, err)
	}
	if _, _, err := receipt.VerifyHead(signed, pkitest.New(t, "servers", testTime).Pool()); err == nil {
		t.Error("a head is valid for another CA")
	}
	for i := range signed.Statement {
		edited := *signed
		edited.Statement = edited.Statement[:i] + string(edited.Statement[i]^1) + edited.Statement[i+1:]
		if _, _, err := receipt.VerifyHead(&edited, a.Pool()); err == nil {
			t.Errorf("byte %d of the statement was changed unseen: %s", i, edited.Statement)
		}
	}
	for i := range signed.Signature {
		edited := *signed
		edited.Signature = slices.Clone(signed.Signature)
		edited.Signature[i] ^= 1
		if _, _, err := receipt.VerifyHead(&edited, a.Pool()); err == nil {
			t.Errorf("byte %d of the signature was changed unseen", i)
		}
	}
}

// Receipts and heads are signed with the same key, so only their beginnings keep one from being
// valid as the other.
func TestHeadIsNoReceiptAndReceiptIsNoHead(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	signer := newSigner(t, a)
	head, err := signer.SignHead(testPlace, testTime)
	runtest.Check(t, err)
	agreed := mustSign(t, signer, newAgreement())
	if _, _, err := receipt.Verify(head, a.Pool()); err == nil {
		t.Error("a head is valid as a receipt")
	}
	if _, _, err := receipt.VerifyHead(agreed, a.Pool()); err == nil {
		t.Error("a receipt is valid as a head")
	}
	if _, err := pki.VerifyStatement(pki.Receipts, []byte(head.Statement), head.Certificates, head.Signature, a.Pool(), testTime); err == nil {
		t.Error("the signature of a head is valid for a receipt")
	}
	if _, err := pki.VerifyStatement(pki.JournalHeads, []byte(agreed.Statement), agreed.Certificates, agreed.Signature, a.Pool(), testTime); err == nil {
		t.Error("the signature of a receipt is valid for a head")
	}
}

func TestOnlyTheFormOfBrokersIsAHead(t *testing.T) {
	a := pkitest.New(t, "servers", testTime)
	signed, err := newSigner(t, a).SignHead(testPlace, testTime)
	runtest.Check(t, err)
	for name, text := range map[string]string{
		"spaces":           strings.Replace(signed.Statement, ":", ": ", 1),
		"a further field":  strings.Replace(signed.Statement, "{", `{"more":1,`, 1),
		"trailing data":    signed.Statement + "{}",
		"no place":         `{"signedAt":"2026-03-01T12:00:00Z","head":{"id":"","position":0,"hash":""}}`,
		"an empty object":  "{}",
		"no JSON":          "head",
		"upper-case names": strings.Replace(signed.Statement, `"head"`, `"Head"`, 1),
	} {
		edited := *signed
		edited.Statement = text
		if _, err := receipt.ReadHead(&edited); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}
