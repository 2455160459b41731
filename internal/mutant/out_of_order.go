//go:build mutant_out_of_order

package mutant

// Active is the mistake that this binary has.
const Active = OutOfOrder
