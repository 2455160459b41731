// Package guard decides what other clusters may have and do in this one.
//
// It grants slices the reserved resources, allows certificates only for live reservations, keeps
// the rights of each identity where the admission policies read them, and bounds the number of
// objects. It also gives access to the pods that run for a placement.
package guard
