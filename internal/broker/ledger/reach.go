package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Reach notes that a provider's agent is silent, or that it is heard again. It changes
// nothing of what is held: whoever is concerned is told.
type Reach struct {
	ClusterID string `json:"clusterID"`
	// Since is when the agent was heard last; zero when it is heard again.
	Since time.Time `json:"since,omitzero"`
}

func (*Reach) subject() string { return "" }

func (e *Reach) checkAgainst(s *State) error {
	c := s.clusters[e.ClusterID]
	if c == nil {
		return fmt.Errorf("cluster %q: %w", e.ClusterID, ErrUnknown)
	}
	if c.LostSince.IsZero() == e.Since.IsZero() {
		return fmt.Errorf("cluster %q: %w: that it is silent or heard again is known", e.ClusterID, ErrTaken)
	}
	return nil
}

func (e *Reach) applyTo(s *State, _ time.Time) {
	c := s.clusters[e.ClusterID]
	c.LostSince = e.Since
	s.touchHolders(c)
}

// touchHolders has whoever is concerned by a provider be told of it.
func (s *State) touchHolders(c *Cluster) {
	for _, name := range c.Reservations() {
		s.reservations[name].Changed = s.position
	}
}

// Reservations for which capacity is held here, by name.
func (c *Cluster) Reservations() []string {
	var out []string
	for placement := range maps.Keys(c.holds) {
		out = append(out, placement[:strings.LastIndexByte(placement, '-')])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
