package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// GetReservation implements the server's Broker: it returns a reservation in which the cluster
// takes part.
func (b *Broker) GetReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error) {
	var answer *unsignedAnswer
	err := b.commitPlan(ctx, func(s *session) error {
		r, _ := s.FindReservation(clusterID, nameOrKey)
		if r == nil {
			return fault.New(fault.NotFound, "cluster %q does not take part in a reservation %q", clusterID, nameOrKey)
		}
		answer = s.newUnsignedAnswer(r, clusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer.signReceipt(), nil
}
