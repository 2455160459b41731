package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// Ceilings are the highest priorities that clusters may use. The zero value bounds no cluster.
type Ceilings struct {
	// Of holds the ceilings of some clusters, by ID.
	Of map[string]int32
	// Default is the ceiling of all other clusters, nil for none.
	Default *int32
}

// Effective returns the priority of a request: the lower of the requested one and the ceiling
// of its requester.
func (c Ceilings) Effective(requester string, asked int32) int32 {
	if ceiling, named := c.Of[requester]; named {
		return min(asked, ceiling)
	}
	if c.Default != nil {
		return min(asked, *c.Default)
	}
	return asked
}

// priorityOf returns the priority of a reservation under the current configuration.
func (s *session) priorityOf(r *ledger.Reservation) int32 {
	return s.config().Ceilings.Effective(r.Requester, r.Priority)
}
