package ledger

// InstructionState is what one side of a placement has to do.
type InstructionState string

// States of an instruction.
const (
	// Hold: the placement stands.
	Hold InstructionState = "Hold"
	// Release: take down what was made for it, then say so.
	Release InstructionState = "Release"
	// Ended: both sides did.
	Ended InstructionState = "Ended"
)

// Instruction is what both sides of a placement have to do.
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
