//go:build mutant_early_resale

package mutant

// Active is the mistake that this binary has.
const Active = EarlyResale
