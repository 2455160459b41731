package ledger

// Phase of a reservation. It is not stored but derived from the placements and the end.
type Phase string

// Phases of a reservation that is in the book.
const (
	Queued    Phase = "Queued"
	Reserved  Phase = "Reserved"
	Active    Phase = "Active"
	Releasing Phase = "Releasing"
	Released  Phase = "Released"
	Failed    Phase = "Failed"
)

// Phase derives the phase of a reservation from its placements and its end.
func (s *State) Phase(r *Reservation) Phase {
	switch {
	case r.EndReason != "" && !s.isGone(r) && !(r.Closed && r.allProvidersGone()):
		return Releasing
	case r.EndReason == EndFailed:
		return Failed
	case r.EndReason != "":
		return Released
	case r.Waiting != nil:
		return Queued
	case r.Serving().Ready && !r.Serving().AcknowledgedAt.IsZero():
		return Active
	default:
		return Reserved
	}
}

// PlacementPhase is the phase of one placement.
type PlacementPhase string

// Phases of a placement.
const (
	Assigned     PlacementPhase = "Assigned"
	Acknowledged PlacementPhase = "Acknowledged"
	Ready        PlacementPhase = "Ready"
	Withdrawing  PlacementPhase = "Withdrawing"
	Gone         PlacementPhase = "Gone"
)

// PlacementPhase derives the phase of a placement.
func (s *State) PlacementPhase(r *Reservation, p *Placement) PlacementPhase {
	switch {
	case p.ProviderGone:
		return Gone
	case !r.Stands(p):
		return Withdrawing
	case p.Ready && !p.AcknowledgedAt.IsZero():
		return Ready
	case !p.AcknowledgedAt.IsZero():
		return Acknowledged
	default:
		return Assigned
	}
}

// isGone reports whether all placements have been taken down on both sides.
func (s *State) isGone(r *Reservation) bool {
	for i := range r.Placements {
		if !s.PlacementOver(r, &r.Placements[i]) {
			return false
		}
	}
	return true
}

// PlacementOver reports whether both sides have taken the placement down. A side that had no
// agent when the placement was given up has nothing to take down.
func (s *State) PlacementOver(_ *Reservation, p *Placement) bool {
	return p.ProviderGone && p.ConsumerGone
}

// Over reports whether the reservation has ended and all its placements are gone.
func (s *State) Over(r *Reservation) bool { return r.EndReason != "" && s.isGone(r) }
