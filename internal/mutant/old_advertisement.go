//go:build mutant_old_advertisement

package mutant

// Active is the mistake that this binary has.
const Active = OldAdvertisement
