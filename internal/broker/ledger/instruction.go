package ledger

// InstructionState is what both sides of a placement have to do.
type InstructionState string

// States of an instruction.
const (
	// Hold: set the placement up and keep it.
	Hold InstructionState = "Hold"
	// Release: take down what was made for the placement, then report that it is gone.
	Release InstructionState = "Release"
	// Ended: both sides have reported that.
	Ended InstructionState = "Ended"
)

// Instruction derives what both sides of a placement have to do.
func (s *State) Instruction(r *Reservation, p *Placement) InstructionState {
	switch {
	case r.Stands(p):
		return Hold
	case s.PlacementOver(r, p):
		return Ended
	default:
		return Release
	}
}
