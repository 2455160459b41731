package broker

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// publishEvent notifies parts of the session, and the controllers and agents that wait for changes, of
// the reservations that an event has changed.
func (s *session) publishEvent(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		if cluster := s.book.Cluster(change.ClusterID); cluster.Agent && cluster.AgentSince.Equal(e.At) {
			// The cluster's agent has just enrolled. So the deadlines for agents now apply to the
			// reservations that the cluster provides or has requested.
			s.publishAll(cluster)
			for _, r := range s.ReservationsOf(change.ClusterID) {
				s.publishChange(r)
			}
		}
	case *ledger.Silence:
		s.publishAll(s.book.Cluster(change.ClusterID))
	case *ledger.ForgetCluster:
		for _, r := range e.Several {
			s.publishChange(r)
		}
	case *ledger.Forget:
		for _, name := range change.Names {
			s.b.feed.AddReservation(name)
		}
	}
	if e.Changed != nil {
		s.publishChange(e.Changed)
		for _, v := range e.Victims {
			s.publishChange(v)
		}
	}
}

// publishAll calls publishChange for every reservation that holds capacity on a cluster.
func (s *session) publishAll(cluster *ledger.Cluster) {
	for _, name := range cluster.Reservations() {
		s.publishChange(s.book.Reservation(name))
	}
}

func (s *session) publishChange(r *ledger.Reservation) {
	s.b.feed.AddReservation(r.Name)
	for _, o := range s.changeObservers {
		o(r)
	}
}
