package ledger

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
