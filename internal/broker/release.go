package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// GetReservation implements the server's Broker.
func (b *Broker) GetReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	var answer *v1.Reservation
	err := b.commitPlan(ctx, func(s *session) error {
		r, _ := s.reservations.findReservation(clusterID, nameOrKey)
		if r == nil {
			return fault.New(fault.NotFound, "cluster %q does not take part in a reservation %q", clusterID, nameOrKey)
		}
		answer = s.reservations.answerFor(r, clusterID)
		return nil
	})
	return answer, err
}

// ReleaseReservation implements the server's Broker. It returns nil, nil if there is no such
// reservation; the key is then closed.
func (b *Broker) ReleaseReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	var answer *v1.Reservation
	err := b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r, shut := s.reservations.findReservation(clusterID, nameOrKey)
		if r == nil {
			if shut {
				return nil
			}
			return s.accounts.closeKey(clusterID, nameOrKey)
		}
		if r.Requester != clusterID {
			return fault.New(fault.Forbidden, "reservation %q belongs to another cluster", r.Name)
		}
		if err := s.reservations.releaseReservation(r, "released by its requester"); err != nil {
			return err
		}
		answer = s.reservations.answerFor(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.BrokerReleased)
	return answer, nil
}

// releaseReservation ends a reservation at its requester's request.
func (rs *reservations) releaseReservation(r *ledger.Reservation, message string) error {
	if r.EndReason != "" {
		return nil
	}
	rs.s.log.Info("reservation ends", "reservation", r.Name, "requester", r.Requester, "target", r.Provider, "why", message)
	return rs.s.record(ledger.Event{Change: &ledger.End{Name: r.Name, Reason: ledger.EndReleased, Message: message}})
}

// findReservation returns a reservation in which the cluster takes part, by name or by the cluster's own
// key. To other clusters it does not exist.
func (rs *reservations) findReservation(clusterID, nameOrKey string) (r *ledger.Reservation, shut bool) {
	if r := rs.s.book.Reservation(nameOrKey); r != nil && takesPart(clusterID, r) {
		return r, false
	}
	return rs.s.book.ByKey(clusterID, nameOrKey)
}

func takesPart(clusterID string, r *ledger.Reservation) bool {
	if r.Requester == clusterID {
		return true
	}
	for i := range r.Placements {
		if r.Placements[i].Provider == clusterID {
			return true
		}
	}
	return false
}
