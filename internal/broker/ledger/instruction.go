package ledger

// InstructionState is the task of both sides of a placement.
type InstructionState string

// States of an instruction.
const (
	// Hold: set the placement up and keep it.
	Hold InstructionState = "Hold"
	// Release: take down everything that was made for the placement, then report that it is
	// gone.
	Release InstructionState = "Release"
	// Ended: both sides have reported that they are gone.
	Ended InstructionState = "Ended"
)

// Instruction derives the task of both sides of a placement.
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
