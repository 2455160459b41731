package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reservations"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// ChangeReservation implements the server's Broker.
func (b *Broker) ChangeReservation(ctx context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error) {
	if err := requests.CheckDuration(change.DurationSeconds); err != nil {
		return nil, err
	}
	amounts, err := wire.ToAmounts(change.Resources)
	if err != nil {
		return nil, fault.New(fault.Invalid, "resources: %v", err)
	}
	if len(change.Resources) == 0 {
		amounts = nil
	}
	if err := actor.Check(change.Actor); err != nil {
		return nil, fault.New(fault.Invalid, "actor: %v", err)
	}
	e := reservations.Edit{
		By: ledger.UserOf(clusterID, change.Actor), Generation: change.Generation, Duration: time.Duration(change.DurationSeconds) * time.Second, Amounts: amounts,
	}
	return b.answerReservation(ctx, clusterID, clusterID, func(s *session) (*ledger.Reservation, error) {
		r, closed := s.FindReservation(clusterID, nameOrKey)
		switch {
		case closed:
			return nil, fault.New(fault.Released, "key %q was released", nameOrKey)
		case r == nil:
			return nil, fault.New(fault.NotFound, "cluster %q does not take part in a reservation %q", clusterID, nameOrKey)
		}
		if err := reservations.CheckOwner(r, clusterID); err != nil {
			return nil, err
		}
		return r, term.FaultOf(s.EditReservation(r, e))
	})
}

// ChangeObject changes the duration and the amounts of a reservation that was requested with a
// Reservation object. generation is the generation of that object and user its last editor, "" if
// unknown. A duration of 0 means Config.DefaultTTL. Nil amounts leave the amounts as they are.
func (b *Broker) ChangeObject(ctx context.Context, name, user string, generation int64, duration time.Duration, amounts quantity.Amounts) (*views.Reservation, error) {
	return answerPlan(ctx, b, "", func(s *session) (*views.Reservation, error) {
		r := s.book.Reservation(name)
		if r == nil {
			return nil, fault.New(fault.NotFound, "reservation %q is not in the book", name)
		}
		if duration == 0 {
			duration = b.config.DefaultTTL
		}
		if err := s.EditReservation(r, reservations.Edit{By: ledger.Administrator(user), Generation: generation, Duration: duration, Amounts: amounts}); err != nil {
			return nil, term.FaultOf(err)
		}
		return s.Views.ViewOf(r), nil
	})
}
