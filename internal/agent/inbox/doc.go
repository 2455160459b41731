// Package inbox takes what the broker has for this cluster and writes it down as
// objects, for controllers to work on: instructions as ReservationInstructions
// and ProviderInstructions, and envelopes of other clusters to whoever reads them.
//
//	broker ──long poll──▶ Instructions ──▶ objects ──▶ controllers
//	                      Messages ──▶ Handler
//
// An instruction ends only by a record that says so; one that is not listed has
// not ended. Everything is written so that it can be repeated, and the cursor
// moves only after all of an answer was written.
package inbox
