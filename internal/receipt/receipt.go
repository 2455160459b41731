package receipt

import (
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Limits of the parts of a receipt in bytes. The schema limits the base64 text of certificates and
// signature to a third more.
const (
	maxStatement   = 16384
	maxCertificate = 8192 / 4 * 3
	maxSignature   = 1024 / 4 * 3
)

// Signer signs statements with the key of the broker's server certificate. It may be used by several
// goroutines.
type Signer struct {
	credentials func() (*pki.Credentials, error)
	// prepared is the signer for the newest credentials.
	prepared atomic.Pointer[prepared]
}

type prepared struct {
	from *pki.Credentials
	*pki.ReceiptSigner
}

// NewSigner returns a signer that calls credentials for each statement, so that it uses a new
// certificate at once.
func NewSigner(credentials func() (*pki.Credentials, error)) *Signer {
	return &Signer{credentials: credentials}
}

// Sign returns a receipt for an agreement. The journal contains the agreement at place or earlier.
func (s *Signer) Sign(a *Agreement, place Place, now time.Time) (*brokerv1alpha1.Receipt, error) {
	key, err := s.currentKey()
	if err != nil {
		return nil, err
	}
	text, err := encodeStatement(&Statement{Agreement: *a, SignedAt: *Instant(now), Journal: place})
	if err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", a.placementName(), err)
	}
	if len(text) > maxStatement {
		return nil, fmt.Errorf("receipt of %s: a statement of %d bytes exceeds the limit of %d", a.placementName(), len(text), maxStatement)
	}
	signature, err := key.Sign(pki.Receipts, text)
	if err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", a.placementName(), err)
	}
	return &brokerv1alpha1.Receipt{Statement: string(text), Certificates: key.Certificates, Signature: signature}, nil
}

func (s *Signer) currentKey() (*prepared, error) {
	credentials, err := s.credentials()
	if err != nil {
		return nil, fmt.Errorf("sign receipts: %w", err)
	}
	if p := s.prepared.Load(); p != nil && p.from == credentials {
		return p, nil
	}
	key, err := pki.NewReceiptSigner(credentials.Certificate)
	if err != nil {
		return nil, err
	}
	p := &prepared{credentials, key}
	s.prepared.Store(p)
	return p, nil
}

func (a *Agreement) placementName() string {
	return brokerv1alpha1.PlacementName(a.Reservation, a.Placement)
}

// Instant returns a time in the form of a statement: in UTC and whole seconds.
func Instant(at time.Time) *time.Time {
	at = time.Unix(at.Unix(), 0).UTC()
	return &at
}

// Verify returns the statement of a receipt, and the certificate of the server that signed it. The
// certificate must have been valid when the receipt was signed. It may have expired since.
func Verify(r *brokerv1alpha1.Receipt, roots *x509.CertPool) (*Statement, *x509.Certificate, error) {
	s, err := Read(r)
	if err != nil {
		return nil, nil, err
	}
	signer, err := pki.VerifyStatement(pki.Receipts, []byte(r.Statement), r.Certificates, r.Signature, roots, s.SignedAt)
	if err != nil {
		return nil, nil, fmt.Errorf("the receipt is not valid: %w", err)
	}
	return s, signer, nil
}

// Read returns the statement of a receipt, without verifying its signature.
func Read(r *brokerv1alpha1.Receipt) (*Statement, error) {
	if err := checkSize(r); err != nil {
		return nil, err
	}
	return decodeStatement(r.Statement)
}

// checkSize returns an error for a receipt that exceeds the limits of the schema.
func checkSize(r *brokerv1alpha1.Receipt) error {
	if n := len(r.Statement); n > maxStatement {
		return fmt.Errorf("a statement of %d bytes exceeds the limit of %d", n, maxStatement)
	}
	if n := len(r.Certificates); n == 0 || n > pki.MaxReceiptChain {
		return fmt.Errorf("%d certificates, want 1 to %d", n, pki.MaxReceiptChain)
	}
	for i, der := range r.Certificates {
		if len(der) > maxCertificate {
			return fmt.Errorf("certificate %d has %d bytes, more than %d", i, len(der), maxCertificate)
		}
	}
	if n := len(r.Signature); n > maxSignature {
		return fmt.Errorf("a signature of %d bytes exceeds the limit of %d", n, maxSignature)
	}
	return nil
}
