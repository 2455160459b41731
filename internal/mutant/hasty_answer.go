//go:build mutant_hasty_answer

package mutant

// Active is the mistake that this binary has.
const Active = HastyAnswer
