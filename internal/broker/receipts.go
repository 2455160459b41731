package broker

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// receipts adds signed receipts to the broker's answers. The content of a receipt is computed from
// the book under the lock. It is signed after the events on which the answer depends are durable.
type receipts struct {
	// signer signs the receipts; nil if the broker signs nothing.
	signer *receipt.Signer

	// mu guards failing.
	mu      sync.Mutex
	failing trouble
}

// unsignedReceipt is an instruction that needs a receipt, and the agreement to sign for it.
type unsignedReceipt struct {
	instruction *v1.Instruction
	agreement   *receipt.Agreement
}

// unsignedAnswer is an answer about a reservation whose receipts are not signed yet.
type unsignedAnswer struct {
	s *session
	*v1.Reservation
	unsigned []unsignedReceipt
}

// newUnsignedAnswer returns the answer of answerFor. If the answer contains an instruction, the
// instruction needs a receipt.
func (s *session) newUnsignedAnswer(r *ledger.Reservation, clusterID string) *unsignedAnswer {
	out := &unsignedAnswer{s: s, Reservation: s.reservations.answerFor(r, clusterID)}
	if s.b.receipts.signer != nil && out.Instruction.Reservation != "" {
		out.unsigned = []unsignedReceipt{{&out.Instruction, agreementOf(r, r.Current())}}
	}
	return out
}

// signAnswer adds the receipts to an answer and returns the answer; nil for nil. All events on
// which the answer depends must be durable.
func (b *Broker) signAnswer(a *unsignedAnswer) *v1.Reservation {
	if a == nil {
		return nil
	}
	b.signAll(a.s, a.unsigned)
	return a.Reservation
}

// unsignedList is a list of instructions whose receipts are not signed yet.
type unsignedList struct {
	s *session
	*v1.InstructionList
	// agreements contains one entry for each instruction, which is nil if the instruction gets no
	// receipt. It is empty if the broker signs nothing.
	agreements []*receipt.Agreement
}

// addInstruction adds an instruction about placement p of r. p is nil if the book does not know the
// placement.
func (l *unsignedList) addInstruction(in v1.Instruction, r *ledger.Reservation, p *ledger.Placement) {
	l.Instructions = append(l.Instructions, in)
	if l.s.b.receipts.signer == nil {
		return
	}
	var agreement *receipt.Agreement
	if p != nil {
		agreement = agreementOf(r, p)
	}
	l.agreements = append(l.agreements, agreement)
}

// signList adds the receipts to a list and returns the list. All events on which the list depends
// must be durable.
func (b *Broker) signList(l *unsignedList) *v1.InstructionList {
	all := make([]unsignedReceipt, 0, len(l.agreements))
	for i, a := range l.agreements {
		if a != nil {
			all = append(all, unsignedReceipt{&l.Instructions[i], a})
		}
	}
	b.signAll(l.s, all)
	return l.InstructionList
}

// signAll adds receipts to instructions. All events on which they depend must be durable, and the
// caller must not hold mu. If signing fails, the instructions stay without receipts: an invalid
// certificate must not stop the broker from granting capacity.
func (b *Broker) signAll(s *session, all []unsignedReceipt) {
	if len(all) == 0 {
		return
	}
	now, anchor := b.opts.Now(), s.journal.Anchor()
	place := receipt.Place{ID: anchor.Journal, Position: anchor.Position, Hash: anchor.Hash}
	for _, u := range all {
		signed, err := b.receipts.signer.Sign(u.agreement, place, now)
		b.receipts.noteOutcome(b, err, now)
		if err != nil {
			return
		}
		u.instruction.Receipt = signed
	}
}

func (rs *receipts) noteOutcome(b *Broker, err error, now time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if err == nil {
		rs.failing.clearTrouble()
		return
	}
	rs.failing.logTrouble(b.opts.Log, err, now, "answers have no receipts: the server certificate cannot sign them")
}

// agreementOf returns the content of a receipt: what requester and provider have agreed about a
// placement.
func agreementOf(r *ledger.Reservation, p *ledger.Placement) *receipt.Agreement {
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
