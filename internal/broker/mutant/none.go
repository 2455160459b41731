//go:build !mutants

package mutant

// Active is the mistake that this process makes: none.
const Active Mutant = ""
