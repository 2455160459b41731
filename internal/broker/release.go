package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reservations"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// ReleaseReservation implements the server's Broker. If there is no such reservation, it returns
// nil, nil and closes the key, so that a request that arrives later is refused.
func (b *Broker) ReleaseReservation(ctx context.Context, clusterID, nameOrKey, user string) (*v1.Reservation, error) {
	if err := actor.Check(user); err != nil {
		return nil, fault.New(fault.Invalid, "actor: %v", err)
	}
	var answer *unsignedAnswer
	err := b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r, closed := s.FindReservation(clusterID, nameOrKey)
		if r == nil {
			if closed {
				return nil
			}
			return term.FaultOf(s.Limiter.CloseKey(clusterID, nameOrKey, ledger.UserOf(clusterID, user)))
		}
		if err := reservations.CheckOwner(r, clusterID); err != nil {
			return err
		}
		if err := s.EndReservation(r, ledger.UserOf(clusterID, user), "released by its requester"); err != nil {
			return err
		}
		answer = s.newUnsignedAnswer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerReleased)
	return answer.signReceipt(), nil
}
