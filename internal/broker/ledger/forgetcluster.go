package ledger

import (
	"fmt"
	"slices"
	"time"
)

// ForgetCluster removes a cluster that is gone for good, although its agent never confirmed that the
// cluster holds nothing. Before that, the placements on the cluster must have been given up, and all
// reservations that it requested must have ended. ForgetCluster marks the cluster's side of all these
// placements as gone.
//
// The cluster stays in the book without agent, offer and history, because ended placements name
// it. If its agent returns, it is treated as a new cluster.
type ForgetCluster struct {
	ClusterID string `json:"clusterID"`
}

func (*ForgetCluster) subject() string { return "" }

func (f *ForgetCluster) checkAgainst(s *State) error {
	c := s.Cluster(f.ClusterID)
	if c == nil || !c.Agent {
		return fmt.Errorf("cluster %q: %w: it has no agent", f.ClusterID, ErrUnknown)
	}
	if len(c.quoted) > 0 || len(s.quotes.HeldFor(f.ClusterID)) > 0 {
		return fmt.Errorf("cluster %q: %w: quotes are held there or for it", f.ClusterID, ErrTaken)
	}
	var inUse []string
	for name, r := range s.reservations {
		if r.EndReason == "" && (r.Requester == f.ClusterID || r.standsOn(f.ClusterID)) {
			inUse = append(inUse, name)
		}
	}
	if len(inUse) > 0 {
		return fmt.Errorf("cluster %q: %w: reservation %q uses it", f.ClusterID, ErrTaken, slices.Min(inUse))
	}
	return nil
}

func (r *Reservation) standsOn(provider string) bool {
	for i := range r.Placements {
		if p := &r.Placements[i]; p.Provider == provider && r.Stands(p) {
			return true
		}
	}
	return false
}

func (f *ForgetCluster) applyTo(s *State, at time.Time) {
	c := s.Cluster(f.ClusterID)
	for _, r := range s.reservations {
		if r.forgetSides(c.ClusterID) {
			r.Changed = s.position
		}
	}
	earlier := c.Source
	*c = *newCluster(ClusterState{Offer: Offer{ClusterID: c.ClusterID}, OfferedAt: at})
	s.clusters.indexManifest(c, earlier)
}

func (r *Reservation) forgetSides(clusterID string) bool {
	changed := false
	for i := range r.Placements {
		p := &r.Placements[i]
		if p.Provider == clusterID && !p.ProviderGone {
			p.ProviderGone, changed = true, true
		}
		if r.Requester == clusterID && !p.ConsumerGone {
			p.ConsumerGone, changed = true, true
		}
	}
	return changed
}
