//go:build mutant_release_twice

package mutant

// Active is the mistake that this binary has.
const Active = ReleaseTwice
