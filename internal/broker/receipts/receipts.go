// Package receipts adds signed receipts to the broker's answers. The content of a receipt is computed from
// the book under the broker's lock. It is signed after the events on which the answer depends are durable.
package receipts

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Signer signs receipts and heads of the journal.
type Signer struct {
	// signer is nil if the broker signs nothing.
	signer *receipt.Signer
	now    func() time.Time
	log    logr.Logger

	// mu guards failing.
	mu      sync.Mutex
	failing term.Trouble
}

// New returns a Signer that uses the given one, nil for a broker that signs nothing.
func New(signer *receipt.Signer, now func() time.Time, log logr.Logger) *Signer {
	return &Signer{signer: signer, now: now, log: log}
}

// Signs reports whether the broker signs anything.
func (s *Signer) Signs() bool { return s.signer != nil }

// Unsigned collects what to sign for the instructions of an answer.
type Unsigned struct {
	s       *Signer
	journal *journal.Journal
	// agreements contains one entry for each instruction, which is nil if the instruction gets no
	// receipt. It is empty if the broker signs nothing.
	agreements []*receipt.Agreement
}

// NewUnsigned returns Unsigned without any. Receipts will name the newest place of the journal.
func (s *Signer) NewUnsigned(j *journal.Journal) *Unsigned { return &Unsigned{s: s, journal: j} }

// Add adds the next instruction, which is about placement p of r. p is nil if the instruction gets no
// receipt, because the book does not know the placement.
func (u *Unsigned) Add(r *ledger.Reservation, p *ledger.Placement) {
	if u.s.signer == nil {
		return
	}
	var agreement *receipt.Agreement
	if p != nil {
		agreement = AgreementOf(r, p)
	}
	u.agreements = append(u.agreements, agreement)
}

// Sign adds receipts to the instructions. All events on which they depend must be durable, and the caller
// must not hold the broker's lock. If signing fails, the instructions stay without receipts: an invalid
// certificate must not stop the broker from granting capacity.
func (u *Unsigned) Sign(instruction func(i int) *v1.Instruction) {
	if len(u.agreements) == 0 {
		return
	}
	now, anchor := u.s.now(), u.journal.Anchor()
	place := receipt.Place{ID: anchor.Journal, Position: anchor.Position, Hash: anchor.Hash}
	for i, agreement := range u.agreements {
		if agreement == nil {
			continue
		}
		signed, err := u.s.signer.Sign(agreement, place, now)
		u.s.noteOutcome(err, now)
		if err != nil {
			return
		}
		instruction(i).Receipt = signed
	}
}

// SignHead returns a signed head of the journal for the given place, nil if the broker signs nothing or its
// certificate cannot sign.
func (s *Signer) SignHead(at journal.Place) *brokerv1alpha1.Receipt {
	if s.signer == nil {
		return nil
	}
	now := s.now()
	signed, err := s.signer.SignHead(receipt.Place{ID: at.Journal, Position: at.Position, Hash: at.Hash}, now)
	s.noteOutcome(err, now)
	if err != nil {
		return nil
	}
	return signed
}

func (s *Signer) noteOutcome(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.failing.Clear()
		return
	}
	s.failing.Report(s.log, err, now, "answers have no receipts: the server certificate cannot sign them")
}

// AgreementOf returns the content of a receipt: what requester and provider have agreed about a
// placement.
func AgreementOf(r *ledger.Reservation, p *ledger.Placement) *receipt.Agreement {
	amounts := r.AgreedWith(p)
	a := &receipt.Agreement{
		Reservation: r.Name, Placement: p.Number, Requester: r.Requester, Provider: p.Provider,
		State: receipt.Held, Resources: wire.FromAmounts(amounts), HeldSince: *receipt.Instant(p.AssignedAt.Time()),
	}
	if p.Price != nil {
		a.Price = toReceiptPrice(p.Price)
		a.Price.PerHour = p.Price.PerHour(amounts, requirements.DataBytes(r.Demands().Data)).String()
	}
	if r.Duration != 0 {
		a.Until = receipt.Instant(r.Until)
	}
	if r.Stands(p) {
		return a
	}
	a.State = receipt.Ended
	if !p.AcknowledgedAt.IsZero() {
		a.AcknowledgedAt = receipt.Instant(p.AcknowledgedAt.Time())
	}
	if p.Withdrawn != "" {
		a.EndedAt, a.Reason = receipt.Instant(p.WithdrawnAt.Time()), p.Withdrawn
	} else {
		a.EndedAt, a.Reason = receipt.Instant(r.EndedAt), string(r.EndReason)
	}
	return a
}

func toReceiptPrice(p *ledger.Price) *receipt.Price {
	out := &receipt.Price{Currency: p.Currency, Rates: make(map[string]string, len(p.Rates))}
	for name, rate := range p.Rates {
		if p.Prices(name) && (name != corev1.ResourceStorage || rate != 0) {
			out.Rates[string(name)] = rate.String()
		}
	}
	if p.Once != 0 {
		out.Once = p.Once.String()
	}
	return out
}
