// Package journal is the broker's durable log: a chain of hash-linked records in
// ConfigMaps of one namespace, and the single point at which anything is committed.
//
//	   sealed segments, immutable                 the tail, one fixed name
//	┌───────────────┐   ┌───────────────┐       ┌──────────────────────────┐
//	│ anchor 0      │◄──│ anchor 211    │◄──────│ anchor 430   head 433    │◄── Append
//	│ records 1-211 │   │ records 212-430│      │ checkpoint 400, trimmed 0│
//	└───────────────┘   └───────────────┘       │ records 431-433          │
//	        checkpoint 400: immutable chunks ◄──└──────────────────────────┘
//
// Every append is one update of the tail, guarded by its resourceVersion; one is in
// flight, and what queues meanwhile is committed by the next one together. Writers
// therefore compete for one resourceVersion: whoever opens the journal appends a
// record of its own, and from then on no former writer can append again, however
// late its requests arrive. Leader election only says when to try.
//
// A full tail is first copied to a sealed segment, named after the position and hash
// of its last record, and then replaced by an empty one anchored at that hash. So a
// copy made twice, or by a writer that lost its place, is either the same object or
// one that nothing refers to; and since the tail never goes away, a missing one is
// damage and not a crash between two steps.
//
// The owner keeps its state in memory, in step with what it appends. An append that
// fails leaves the memory ahead of the log, so every failure ends the Journal: the
// owner throws its memory away and calls Open again.
package journal
