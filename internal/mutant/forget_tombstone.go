//go:build mutant_forget_tombstone

package mutant

// Active is the mistake that this binary has.
const Active = ForgetTombstone
