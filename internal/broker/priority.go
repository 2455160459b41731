package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// Ceilings are the highest priorities of clusters. The zero value bounds nobody.
type Ceilings struct {
	// Of clusters, by their IDs.
	Of map[string]int32
	// Default is that of every other cluster; nil for none.
	Default *int32
}

// Effective is the priority with which a request counts: what was asked for or the
// ceiling of its requester, whichever is less.
func (c Ceilings) Effective(requester string, asked int32) int32 {
	if ceiling, named := c.Of[requester]; named {
		return min(asked, ceiling)
	}
	if c.Default != nil {
		return min(asked, *c.Default)
	}
	return asked
}

// priority of a reservation by the configuration in force.
func (t *session) priority(r *ledger.Reservation) int32 {
	return t.config().Ceilings.Effective(r.Requester, r.Priority)
}
