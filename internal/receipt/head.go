package receipt

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Head is the content of a signed head of the journal: which record was the newest one of the broker's journal at a
// time. Since the hashes of records form a chain, it proves all records before it. It is stored in the same type as a
// receipt, but the signed bytes begin with other text, so that neither is valid in place of the other.
type Head struct {
	// SignedAt is when the broker signed the head, by its clock, in UTC and whole seconds.
	SignedAt time.Time `json:"signedAt"`
	// Head is a place in the journal. Newer records may have existed when it was signed.
	Head Place `json:"head"`
}

// SignHead returns a signed head of the journal.
func (s *Signer) SignHead(place Place, now time.Time) (*brokerv1alpha1.Receipt, error) {
	key, err := s.currentKey()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(&Head{SignedAt: *Instant(now), Head: place})
	if err != nil {
		return nil, fmt.Errorf("head of the journal at position %d: %w", place.Position, err)
	}
	signature, err := key.Sign(pki.JournalHeads, text)
	if err != nil {
		return nil, fmt.Errorf("head of the journal at position %d: %w", place.Position, err)
	}
	return &brokerv1alpha1.Receipt{Statement: string(text), Certificates: key.Certificates, Signature: signature}, nil
}

// VerifyHead returns the content of a signed head, and the certificate of the server that signed it. The
// certificate must have been valid when the head was signed. It may have expired since.
func VerifyHead(r *brokerv1alpha1.Receipt, roots *x509.CertPool) (*Head, *x509.Certificate, error) {
	h, err := ReadHead(r)
	if err != nil {
		return nil, nil, err
	}
	signer, err := pki.VerifyStatement(pki.JournalHeads, []byte(r.Statement), r.Certificates, r.Signature, roots, h.SignedAt)
	if err != nil {
		return nil, nil, fmt.Errorf("the signed head of the journal is not valid: %w", err)
	}
	return h, signer, nil
}

// ReadHead returns the content of a signed head, without verifying its signature. It refuses any text
// that SignHead cannot have written.
func ReadHead(r *brokerv1alpha1.Receipt) (*Head, error) {
	if err := checkSize(r); err != nil {
		return nil, fmt.Errorf("the signed head of the journal: %w", err)
	}
	h := &Head{}
	from := json.NewDecoder(bytes.NewReader([]byte(r.Statement)))
	from.DisallowUnknownFields()
	if err := from.Decode(h); err != nil {
		return nil, fmt.Errorf("the signed head of the journal cannot be read, a newer version may be needed: %w", err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the signed head of the journal has trailing data")
	}
	if again, err := json.Marshal(h); err != nil || string(again) != r.Statement {
		return nil, errors.New("the signed head of the journal is not in the form that brokers sign")
	}
	if h.Head.ID == "" || h.Head.Position == 0 || h.SignedAt.IsZero() {
		return nil, errors.New("the signed head of the journal names no place or no time")
	}
	return h, nil
}
