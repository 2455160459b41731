//go:build mutant_equal_victim

package mutant

// Active is the mistake that this binary has.
const Active = EqualVictim
