package broker

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// changes finds the reservations that an event changes. It notifies components of the session, and
// the controllers and agents that wait for changes.
type changes struct {
	s *session
	// observers are called after a change of a reservation, or of other state that its view contains.
	// They keep state up to date that is computed from reservations.
	observers []func(*ledger.Reservation)
}

func (c *changes) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		if cluster := c.s.book.Cluster(change.ClusterID); cluster.Agent && cluster.AgentSince.Equal(e.At) {
			// The cluster's agent has just enrolled. So the deadlines for agents now apply to the
			// reservations that the cluster provides or has requested.
			c.publishAll(cluster)
			for _, r := range c.s.news.reservationsOf(change.ClusterID) {
				c.publishChange(r)
			}
		}
	case *ledger.Silence:
		c.publishAll(c.s.book.Cluster(change.ClusterID))
	case *ledger.ForgetCluster:
		for _, r := range e.Several {
			c.publishChange(r)
		}
	case *ledger.Forget:
		for _, name := range change.Names {
			c.s.b.feed.addReservation(name)
		}
	}
	if e.Changed != nil {
		c.publishChange(e.Changed)
		for _, v := range e.Victims {
			c.publishChange(v)
		}
	}
}

// publishAll calls publishChange for every reservation that holds capacity on a cluster.
func (c *changes) publishAll(cluster *ledger.Cluster) {
	for _, name := range cluster.Reservations() {
		c.publishChange(c.s.book.Reservation(name))
	}
}

// publishChange reports a changed reservation to the feed and to all observers.
func (c *changes) publishChange(r *ledger.Reservation) {
	c.s.b.feed.addReservation(r.Name)
	for _, o := range c.observers {
		o(r)
	}
}
