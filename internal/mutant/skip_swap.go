//go:build mutant_skip_swap

package mutant

// Active is the mistake that this binary has.
const Active = SkipSwap
