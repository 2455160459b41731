package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// isAbandoned is whether the end of a reservation waits for an agent alone of which
// nothing was heard for Config.StaleThreshold.
func (t *session) isAbandoned(r *ledger.Reservation) bool {
	return t.book.Closable(r) && t.presenceOf(r.Requester).phase == ClusterInactive
}

// noteAbandoned has the reservations closed that wait for a cluster which fell silent.
func (t *session) noteAbandoned(clusterID string) {
	for _, r := range t.concerned(clusterID) {
		if t.isAbandoned(r) {
			t.due.set(r.Name, t.now())
		}
	}
}
