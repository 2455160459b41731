//go:build mutant_count_both

package mutant

// Active is the mistake that this binary has.
const Active = CountBoth
