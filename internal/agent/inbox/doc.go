// Package inbox receives the broker's instructions and messages for this cluster. It writes
// instructions as ReservationInstructions and ProviderInstructions, which controllers carry
// out. It passes messages of other clusters to a Handler.
//
//	broker ──long poll──▶ Instructions ──▶ objects ──▶ controllers
//	                      Messages ──▶ Handler
//
// An instruction ends only when the broker explicitly says so. An instruction that is
// missing in an answer has not ended. All writes can be repeated, and the cursor advances
// only after a whole answer has been written.
package inbox
