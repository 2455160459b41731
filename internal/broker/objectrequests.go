package broker

import (
	"cmp"
	"context"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// objectKey returns the key under which the book stores the request of a Reservation object. Keys
// of agents contain no slash, so no agent can use it.
func objectKey(key string) string { return "object/" + key }

// ReserveObject grants the request of a Reservation object, or puts it into the queue. If the key
// was used before, it returns the existing reservation; the default key is the object's UID. A
// request without a duration gets Config.DefaultTTL.
func (b *Broker) ReserveObject(ctx context.Context, q requests.Request) (*views.Reservation, error) {
	q.Key = objectKey(cmp.Or(q.Key, q.Object.UID))
	if err := q.Complete(); err != nil {
		return nil, err
	}
	return answerPlan(ctx, b, "", func(s *session) (*views.Reservation, error) {
		if r, closed := s.book.ByKey(q.Requester, q.Key); r != nil && !closed {
			return s.Views.ViewOf(r), nil
		}
		if q.Duration == 0 {
			q.Duration = b.config.DefaultTTL
		}
		if q.Target == q.Requester && q.Target != "" {
			return nil, fault.New(fault.Invalid, "targetClusterID %q is the requester itself: name another cluster or none", q.Target)
		}
		r, err := s.ReserveOrQueue(&q)
		if err != nil {
			return nil, err
		}
		return s.Views.ViewOf(r), nil
	})
}

// Release ends a reservation because a user deleted its object; user is "" if unknown. It does
// nothing if the reservation has ended or is unknown.
func (b *Broker) Release(ctx context.Context, name, user, why string) error {
	return b.commitPlan(ctx, func(s *session) error {
		r := s.book.Reservation(name)
		if r == nil {
			return nil
		}
		return s.EndReservation(r, ledger.Administrator(user), why)
	})
}

// HeldFor returns the reservations that an object of this name asked for and that have not ended,
// as a map from the name of the reservation to the UID of its object. An object that was deleted
// and created again has a new UID. HeldFor does not wait until the reservations are durable.
func (b *Broker) HeldFor(namespace, name string) map[string]string {
	return peek(b, func(s *session) map[string]string { return s.OfObject(namespace, name) })
}
