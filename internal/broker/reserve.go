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

// RequestReservation implements the server's Broker.
func (b *Broker) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	q, err := requests.Read(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	if req.HoldSeconds != 0 {
		return nil, fault.New(fault.Invalid, "holdSeconds: only a quote is held; leave it out, or ask POST /api/v1/quotes")
	}
	answer, err := b.answerReservation(ctx, clusterID, clusterID, func(s *session) (*ledger.Reservation, error) {
		r, err := s.ReserveOrQueue(q)
		if err != nil {
			return nil, s.currentConfig().Visibility.InError(err, q.Target)
		}
		return r, nil
	})
	if err == nil {
		failpoint.Hit(failpoint.BrokerReserved)
	}
	return answer, err
}

// GetReservation implements the server's Broker.
func (b *Broker) GetReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	return b.answerReservation(ctx, "", clusterID, func(s *session) (*ledger.Reservation, error) {
		r, _ := s.FindReservation(clusterID, nameOrKey)
		if r == nil {
			return nil, fault.New(fault.NotFound, "cluster %q does not take part in a reservation %q", clusterID, nameOrKey)
		}
		return r, nil
	})
}

// answerReservation answers clusterID with the reservation that plan returns, nil for nil. payer is as in
// answerPlan. If the answer contains an instruction, the instruction gets a receipt once all events on which
// it depends are durable.
func (b *Broker) answerReservation(ctx context.Context, payer, clusterID string, plan func(*session) (*ledger.Reservation, error)) (*v1.Reservation, error) {
	var unsigned *receipts.Unsigned
	answer, err := answerPlan(ctx, b, payer, func(s *session) (*v1.Reservation, error) {
		r, err := plan(s)
		if r == nil || err != nil {
			return nil, err
		}
		out := s.AnswerFor(r, clusterID)
		if unsigned = s.b.receipts.NewUnsigned(s.journal); out.Instruction.Reservation != "" {
			unsigned.Add(r, r.Current())
		}
		return out, nil
	})
	if answer != nil {
		unsigned.Sign(func(int) *v1.Instruction { return &answer.Instruction })
	}
	return answer, err
}
