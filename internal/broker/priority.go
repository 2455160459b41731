package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// PriorityLimits are the highest priorities that clusters may use. The zero value bounds no cluster.
type PriorityLimits struct {
	// Of holds the limits of some clusters, by ID.
	Of map[string]int32
	// Default is the limit of all other clusters, nil for none.
	Default *int32
}

// Effective returns the priority of a request: the lower of the requested one and the limit
// of its requester.
func (c PriorityLimits) Effective(requester string, asked int32) int32 {
	if limit, named := c.Of[requester]; named {
		return min(asked, limit)
	}
	if c.Default != nil {
		return min(asked, *c.Default)
	}
	return asked
}

// priorityOf returns the priority of a reservation under the current configuration.
func (s *session) priorityOf(r *ledger.Reservation) int32 {
	return s.config().PriorityLimits.Effective(r.Requester, r.Priority)
}
