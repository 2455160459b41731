//go:build mutant_stale_grant

package mutant

// Active is the mistake that this binary has.
const Active = StaleGrant
