// Package guard decides what other clusters may have and do in this one.
//
// It grants slices what was reserved, signs identities for live reservations alone, keeps
// the rights of each identity where the admission policies read them, bounds the number of
// objects, and gives access to the pods that run for a placement.
package guard
