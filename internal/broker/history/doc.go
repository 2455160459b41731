// Package history lists the reservations that have ended and that the broker has forgotten, in the
// order in which it forgot them.
//
// Only the newest rows are in memory. The caller takes the oldest of them as a Batch, stores the
// batch outside of the book, and calls Close, which drops its rows. Each batch has the hash of the
// batch before, so the hash of the newest one proves all of them.
package history
