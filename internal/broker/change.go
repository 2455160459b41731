package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// ChangeReservation implements the server's Broker: it changes the duration and the amounts of a
// reservation.
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
	e := edit{by: ledger.UserOf(clusterID, change.Actor), generation: change.Generation, duration: time.Duration(change.DurationSeconds) * time.Second, amounts: amounts}
	var answer *unsignedAnswer
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r, shut := s.findReservation(clusterID, nameOrKey)
		switch {
		case shut:
			return fault.New(fault.Released, "key %q was released", nameOrKey)
		case r == nil:
			return fault.New(fault.NotFound, "cluster %q does not take part in a reservation %q", clusterID, nameOrKey)
		case r.Requester != clusterID:
			return fault.New(fault.Forbidden, "reservation %q belongs to another cluster", r.Name)
		}
		if err := s.editReservation(r, e); err != nil {
			return err
		}
		answer = s.newUnsignedAnswer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.signAnswer(answer), nil
}

// ChangeObject changes the duration and the amounts of a reservation that was requested with a
// Reservation object. generation is the generation of that object and user its last editor, "" if
// unknown. A duration of 0 means Config.DefaultTTL. Nil amounts leave the amounts as they are.
func (b *Broker) ChangeObject(ctx context.Context, name, user string, generation int64, duration time.Duration, amounts quantity.Amounts) (*views.Reservation, error) {
	var view *views.Reservation
	err := b.commitPlan(ctx, func(s *session) error {
		r := s.book.Reservation(name)
		if r == nil {
			return fault.New(fault.NotFound, "reservation %q is not in the book", name)
		}
		if duration == 0 {
			duration = b.config.DefaultTTL
		}
		if err := s.editReservation(r, edit{ledger.Administrator(user), generation, duration, amounts}); err != nil {
			return err
		}
		view = s.Views.ViewOf(r)
		return nil
	})
	return view, err
}

// edit is a change of a reservation that a requester asks for.
type edit struct {
	by         ledger.Actor
	generation int64
	duration   time.Duration
	// amounts are the new amounts; nil if they do not change.
	amounts quantity.Amounts
}

// editReservation changes the duration and the amounts of a reservation. New amounts take effect
// when the provider's agent has agreed to them. A repetition of the last edit changes nothing; if the
// provider has refused that edit, it returns the refusal as an error.
func (s *session) editReservation(r *ledger.Reservation, e edit) error {
	if r.EndReason != "" {
		return fault.New(fault.Released, "reservation %q has ended (%s) and cannot be changed: make another", r.Name, views.End(r))
	}
	q, err := e.requestAfter(r)
	if err != nil {
		return err
	}
	otherAmounts := !q.Amounts.Equal(r.Wanted())
	switch {
	case r.Refusal != nil && r.Refusal.Generation == e.generation:
		return fault.New(fault.Conflict, "%s", r.Refusal.Reason)
	case e.generation == r.Generation && e.duration == r.Duration && !otherAmounts:
		return nil
	case e.generation <= r.Generation:
		return fault.New(fault.Conflict, "reservation %q: change %d was overtaken by change %d", r.Name, e.generation, r.Generation)
	}
	if err := s.config().Bounds.Check(q); err != nil {
		return err
	}
	until, err := s.newEnd(r, e.duration)
	if err != nil {
		return err
	}
	change := &ledger.Edit{Name: r.Name, Generation: e.generation, Digest: q.Digest(), Duration: e.duration, Until: until}
	if otherAmounts {
		if err := s.checkAmounts(r, q); err != nil {
			return err
		}
		change.Amounts = q.Amounts
	}
	s.log.Info("reservation changed", "reservation", r.Name, "requester", r.Requester, "by", e.by.String(),
		"generation", e.generation, "duration", e.duration.String(), "until", until.Format(time.RFC3339), "resources", q.Amounts.Describe())
	if change.Amounts != nil || r.Pending != nil {
		q.Amounts = r.Amounts
		change.Fallback = q.Digest()
	}
	return faultOf(s.Record(ledger.Event{By: e.by, Change: change}))
}

// requestAfter returns what the request of the reservation would be after the change, or an error
// if that request would be invalid.
func (e edit) requestAfter(r *ledger.Reservation) (*requests.Request, error) {
	q := requests.Of(r)
	q.Duration, q.Amounts = e.duration, e.amounts
	if q.Amounts == nil {
		q.Amounts = r.Wanted()
	}
	return q, q.Complete()
}

// newEnd returns when a reservation with a new duration ends, or an error if that time is in the
// past.
func (s *session) newEnd(r *ledger.Reservation, duration time.Duration) (time.Time, error) {
	until, now := s.endTime(r, duration), s.Now()
	if !until.After(now) {
		return time.Time{}, fault.New(fault.Invalid, "duration: %s from %s on is over already: ask for more than %s, or release the reservation",
			duration, r.ReservedAt().Format(time.RFC3339), now.Sub(r.ReservedAt()).Truncate(time.Second))
	}
	return until, nil
}

// endTime returns when a reservation ends after a change of its duration. The end moves by as much
// as the duration changes. If the reservation had no duration so far, the new one counts from when
// its capacity was locked. If it has no duration any longer, it ends one lease from now. A waiting
// reservation is treated as if it were granted now.
func (s *session) endTime(r *ledger.Reservation, duration time.Duration) time.Time {
	switch {
	case r.Waiting != nil && duration != 0 && r.Duration != 0:
		return s.Now().Add(r.Waiting.Left + duration - r.Duration)
	case r.Waiting != nil && duration != 0:
		return s.Now().Add(duration)
	case duration == 0:
		return s.Now().Add(lease)
	case r.Duration == 0:
		return r.ReservedAt().Add(duration)
	default:
		return r.Until.Add(duration - r.Duration)
	}
}
