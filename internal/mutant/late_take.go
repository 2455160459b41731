//go:build mutant_late_take

package mutant

// Active is the mistake that this binary has.
const Active = LateTake
