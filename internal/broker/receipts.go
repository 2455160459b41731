package broker

import (
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/receipts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// unsignedAnswer is an answer about a reservation whose receipt is not signed yet.
type unsignedAnswer struct {
	s *session
	*v1.Reservation
	unsigned []receipts.Unsigned
}

// newUnsignedAnswer returns the answer of AnswerFor. If the answer contains an instruction, the
// instruction needs a receipt.
func (s *session) newUnsignedAnswer(r *ledger.Reservation, clusterID string) *unsignedAnswer {
	out := &unsignedAnswer{s: s, Reservation: s.AnswerFor(r, clusterID)}
	if s.b.receipts.Signs() && out.Instruction.Reservation != "" {
		out.unsigned = []receipts.Unsigned{{Instruction: &out.Instruction, Agreement: receipts.AgreementOf(r, r.Current())}}
	}
	return out
}

// signAnswer adds the receipt to an answer and returns the answer; nil for nil. All events on which the
// answer depends must be durable.
func (b *Broker) signAnswer(a *unsignedAnswer) *v1.Reservation {
	if a == nil {
		return nil
	}
	b.receipts.SignAll(a.s.journal.Anchor(), a.unsigned)
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
	if !l.s.b.receipts.Signs() {
		return
	}
	var agreement *receipt.Agreement
	if p != nil {
		agreement = receipts.AgreementOf(r, p)
	}
	l.agreements = append(l.agreements, agreement)
}

// signList adds the receipts to a list and returns the list. All events on which the list depends
// must be durable.
func (b *Broker) signList(l *unsignedList) *v1.InstructionList {
	all := make([]receipts.Unsigned, 0, len(l.agreements))
	for i, a := range l.agreements {
		if a != nil {
			all = append(all, receipts.Unsigned{Instruction: &l.Instructions[i], Agreement: a})
		}
	}
	b.receipts.SignAll(l.s.journal.Anchor(), all)
	return l.InstructionList
}
