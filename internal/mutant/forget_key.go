//go:build mutant_forget_key

package mutant

// Active is the mistake that this binary has.
const Active = ForgetKey
