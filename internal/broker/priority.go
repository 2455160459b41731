package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// priorityOf returns the priority that counts for a reservation under the current configuration.
func (s *session) priorityOf(r *ledger.Reservation) int32 {
	return s.config().PriorityLimits.Effective(r.Requester, r.Priority)
}
