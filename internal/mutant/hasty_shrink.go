//go:build mutant_hasty_shrink

package mutant

// Active is the mistake that this binary has.
const Active = HastyShrink
