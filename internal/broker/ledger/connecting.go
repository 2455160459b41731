package ledger

import (
	"fmt"
	"time"
)

// Connect records a report of the requester: the placement is complete except for the network
// between the two clusters, which is being set up. From then on, Limits.Network applies instead of
// Limits.Ready.
//
// The broker accepts the report only from the requester, and only if State.MayConnect allows it. A
// provider that never serves would gain from more time, while the requester only makes itself
// wait.
type Connect struct{ PlacementRef }

// maxConnecting is how many placements may be setting up their network at the same time on a
// provider whose nodes have never become Ready. Each of them can make a request wait for
// Limits.Network in vain.
const maxConnecting = 4

func (e *Connect) checkAgainst(s *State) error {
	if err := s.checkStanding(e.PlacementRef); err != nil {
		return err
	}
	if _, p := s.findPlacement(e.PlacementRef); p.EverReady || !p.NodeSince.IsZero() {
		return fmt.Errorf("placement %s: %w: its node was Ready, or its network is already being set up", e.PlacementRef, ErrTaken)
	}
	return nil
}

func (e *Connect) applyTo(s *State, at time.Time) {
	s.changePlacement(e.PlacementRef, func(p *Placement) { p.NodeSince = instantOf(at) })
}

// IsConnecting reports whether the network for the placement is being set up, so that
// Limits.Network applies.
func (p *Placement) IsConnecting() bool { return !p.EverReady && !p.NodeSince.IsZero() }

// MayConnect reports whether a placement gets the longer time to set up its network. The placement
// must stand and be acknowledged, and must neither have been Ready nor have the longer time already.
// MayConnect also returns false if the provider recently failed this requester, or failed enough
// requesters to be paused for all. So a provider that never serves costs each requester the longer
// time only once. See also maxConnecting.
func (s *State) MayConnect(r *Reservation, p *Placement, now time.Time) bool {
	if !r.Stands(p) || p.EverReady || !p.NodeSince.IsZero() || !s.HasAgent(r.Requester) || p.AcknowledgedAt.IsZero() && s.HasAgent(p.Provider) {
		return false
	}
	c := s.Cluster(p.Provider)
	return !c.Providing.Doubted(r.Requester, now) && (c.Record.Ready > 0 || s.countConnecting(c) < maxConnecting)
}

// countConnecting returns how many placements on a provider are setting up their network.
func (s *State) countConnecting(c *Cluster) int {
	n := 0
	for _, name := range c.Reservations() {
		r := s.reservations[name]
		for i := range r.Placements {
			if p := &r.Placements[i]; p.Provider == c.ClusterID && r.Stands(p) && p.IsConnecting() {
				n++
			}
		}
	}
	return n
}
