package ledger

import (
	"fmt"
	"time"
)

// Silence records that a cluster's agent fell silent, or that it was heard again. It changes no
// capacity. The reservations on the cluster are marked as changed.
type Silence struct {
	ClusterID string `json:"clusterID"`
	// Since is when the agent last reported; zero if the agent is no longer silent.
	Since time.Time `json:"since,omitzero"`
}

func (*Silence) subject() string { return "" }

func (e *Silence) checkAgainst(s *State) error {
	c := s.Cluster(e.ClusterID)
	if c == nil {
		return fmt.Errorf("cluster %q: %w", e.ClusterID, ErrUnknown)
	}
	if c.LostSince.IsZero() == e.Since.IsZero() {
		return fmt.Errorf("cluster %q: %w: it is already in that state", e.ClusterID, ErrTaken)
	}
	return nil
}

func (e *Silence) applyTo(s *State, _ time.Time) {
	c := s.Cluster(e.ClusterID)
	c.LostSince = e.Since
	s.markHolders(c)
}

func (s *State) markHolders(c *Cluster) {
	for _, name := range c.Reservations() {
		s.reservations[name].Changed = s.position
	}
}
