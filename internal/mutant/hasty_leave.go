//go:build mutant_hasty_leave

package mutant

// Active is the mistake that this binary has.
const Active = HastyLeave
