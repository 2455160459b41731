package ledger

// Phase is the phase of a reservation. It is not stored, but computed from the placements and the
// end of the reservation.
type Phase string

// The phases of a reservation.
const (
	Queued    Phase = "Queued"
	Reserved  Phase = "Reserved"
	Active    Phase = "Active"
	Releasing Phase = "Releasing"
	Released  Phase = "Released"
	Failed    Phase = "Failed"
)

// Phase returns the phase of the reservation.
func (r *Reservation) Phase() Phase {
	switch {
	case r.EndReason != "" && !r.isGone() && !(r.Closed && r.allProvidersGone()):
		return Releasing
	case r.EndReason == EndFailed, r.EndReason == EndPreempted:
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

// Over reports whether the reservation has ended and all its placements are gone.
func (r *Reservation) Over() bool { return r.EndReason != "" && r.isGone() }

// PlacementPhase is the phase of one placement.
type PlacementPhase string

// Phases of a placement.
const (
	Assigned PlacementPhase = "Assigned"
	// Provisioning: the provider creates nodes for the placement.
	Provisioning PlacementPhase = "Provisioning"
	Acknowledged PlacementPhase = "Acknowledged"
	// Connecting: the placement is complete except for the network between the two clusters.
	Connecting  PlacementPhase = "Connecting"
	Ready       PlacementPhase = "Ready"
	Withdrawing PlacementPhase = "Withdrawing"
	Gone        PlacementPhase = "Gone"
)

// PlacementPhase returns the phase of a placement.
func (r *Reservation) PlacementPhase(p *Placement) PlacementPhase {
	switch {
	case p.ProviderGone:
		return Gone
	case !r.Stands(p):
		return Withdrawing
	case p.Ready && !p.AcknowledgedAt.IsZero():
		return Ready
	case p.IsConnecting():
		return Connecting
	case !p.AcknowledgedAt.IsZero():
		return Acknowledged
	case r.ProvisioningOf(p) != nil:
		return Provisioning
	default:
		return Assigned
	}
}

// isGone reports whether all placements are gone on both sides.
func (r *Reservation) isGone() bool {
	for i := range r.Placements {
		if !r.Placements[i].isGone() {
			return false
		}
	}
	return true
}

// isGone reports whether both sides have removed the placement. A side that had no agent when the
// placement was given up has nothing to remove.
func (p *Placement) isGone() bool {
	return p.ProviderGone && p.ConsumerGone
}

// InstructionState is what the agents on both sides of a placement have to do.
type InstructionState string

// States of an instruction.
const (
	// Hold: set up the placement and keep it.
	Hold InstructionState = "Hold"
	// Release: remove everything that was made for the placement, then report it as gone.
	Release InstructionState = "Release"
	// Ended: both sides have reported the placement as gone.
	Ended InstructionState = "Ended"
)

// Instruction returns what the agents on both sides of a placement have to do.
func (r *Reservation) Instruction(p *Placement) InstructionState {
	switch {
	case r.Stands(p):
		return Hold
	case p.isGone():
		return Ended
	default:
		return Release
	}
}
