package ledger

import (
	"fmt"
	"time"
)

// Connect notes that the requester has everything of a placement but the network between the two
// clusters, which is being set up. From then on Limits.Network applies instead of Limits.Ready.
//
// Only the requester reports it: a provider that never serves would profit from more time, while the
// requester is the one that waits. The broker records it only if State.MayConnect allows it.
type Connect struct{ PlacementRef }

// maxConnecting bounds the placements that a provider without any success may have in this state
// at a time. With each of them, it can keep a request waiting for Limits.Network.
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

// IsConnecting reports whether a placement has the longer time to set up its network.
func (p *Placement) IsConnecting() bool { return !p.EverReady && !p.NodeSince.IsZero() }

// MayConnect reports whether a placement whose network is being set up gets the longer time for it.
// It does not on a provider that failed its requester recently or is paused for all, so that a
// provider that never serves costs each requester the longer time only once.
func (s *State) MayConnect(r *Reservation, p *Placement, now time.Time) bool {
	if !r.Stands(p) || p.EverReady || !p.NodeSince.IsZero() || !s.HasAgent(r.Requester) || p.AcknowledgedAt.IsZero() && s.HasAgent(p.Provider) {
		return false
	}
	c := s.Cluster(p.Provider)
	return !c.Providing.isDoubted(r.Requester, now) && (c.Record.Ready > 0 || s.countConnecting(c) < maxConnecting)
}

// isDoubted reports whether a counterpart, or several of them, reported failures recently.
func (c *Conduct) isDoubted(counterpart string, now time.Time) bool {
	if c == nil {
		return false
	}
	t := c.Tallies[counterpart]
	return t.pointsAt(now) >= failurePoints || c.Points(now) >= pauseAt
}

// countConnecting returns how many placements on a provider set up their network.
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
