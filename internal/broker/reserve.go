package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/receipts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// RequestReservation implements the server's Broker: it grants a request, or puts it into the queue
// if the request asks for that and no cluster can serve it now.
func (b *Broker) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	q, err := requests.Read(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	if req.HoldSeconds != 0 {
		return nil, fault.New(fault.Invalid, "holdSeconds: only a quote is held; leave it out, or ask POST /api/v1/quotes")
	}
	var answer *unsignedAnswer
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r, err := s.ReserveOrQueue(q)
		if err != nil {
			return s.currentConfig().Visibility.InError(err, q.Target)
		}
		answer = s.newUnsignedAnswer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerReserved)
	return answer.signReceipt(), nil
}

// unsignedAnswer is an answer about a reservation whose receipt is not signed yet.
type unsignedAnswer struct {
	*v1.Reservation
	unsigned *receipts.Unsigned
}

// newUnsignedAnswer returns the answer of AnswerFor. If the answer contains an instruction, the
// instruction needs a receipt.
func (s *session) newUnsignedAnswer(r *ledger.Reservation, clusterID string) *unsignedAnswer {
	out := &unsignedAnswer{s.AnswerFor(r, clusterID), s.b.receipts.NewUnsigned(s.journal)}
	if out.Instruction.Reservation != "" {
		out.unsigned.Add(r, r.Current())
	}
	return out
}

// signReceipt adds the receipt to an answer and returns the answer; nil for nil. All events on which the
// answer depends must be durable.
func (a *unsignedAnswer) signReceipt() *v1.Reservation {
	if a == nil {
		return nil
	}
	a.unsigned.Sign(func(int) *v1.Instruction { return &a.Instruction })
	return a.Reservation
}
