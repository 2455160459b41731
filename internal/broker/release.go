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

// ReleaseReservation implements the server's Broker.
func (b *Broker) ReleaseReservation(ctx context.Context, clusterID, nameOrKey, user string) (*v1.Reservation, error) {
	if err := actor.Check(user); err != nil {
		return nil, fault.New(fault.Invalid, "actor: %v", err)
	}
	answer, err := b.answerReservation(ctx, clusterID, clusterID, func(s *session) (*ledger.Reservation, error) {
		r, closed := s.FindReservation(clusterID, nameOrKey)
		switch {
		case r == nil && closed:
			return nil, nil
		case r == nil:
			return nil, term.FaultOf(s.Limiter.CloseKey(clusterID, nameOrKey, ledger.UserOf(clusterID, user)))
		}
		if err := reservations.CheckOwner(r, clusterID); err != nil {
			return nil, err
		}
		return r, s.EndReservation(r, ledger.UserOf(clusterID, user), "released by its requester")
	})
	if err == nil {
		failpoint.Hit(failpoint.BrokerReleased)
	}
	return answer, err
}
