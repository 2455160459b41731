//go:build mutant_early_expiry

package mutant

// Active is the mistake that this binary has.
const Active = EarlyExpiry
