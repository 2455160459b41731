// Package journal is the broker's durable log: a chain of hash-linked records in ConfigMaps of
// one namespace, and the single point at which events are committed.
//
//	   sealed segments, immutable                 the tail, one fixed name
//	┌───────────────┐   ┌───────────────┐       ┌──────────────────────────┐
//	│ anchor 0      │◄──│ anchor 211    │◄──────│ anchor 430   head 433    │◄── Append
//	│ records 1-211 │   │ records 212-430│      │ checkpoint 400, trimmed 0│
//	└───────────────┘   └───────────────┘       │ records 431-433          │
//	        checkpoint 400: immutable chunks ◄──└──────────────────────────┘
//
// Every append is one update of the tail, guarded by its resourceVersion. One update is in
// flight at a time; the next one commits all records that queue meanwhile. Writers therefore
// compete for one resourceVersion. A writer that opens the journal appends a record of its own.
// From then on no former writer can append again, however late its requests arrive. Leader
// election only says when to try.
//
// A full tail is first copied to a sealed segment, named after the position and hash of its
// last record, and then replaced by an empty one anchored at that hash. If the copy is made
// twice, or by a writer that was fenced off, it is either the same object or one without
// references. The tail is never deleted, so a missing tail means damage and not a crash between
// two steps.
//
// The owner keeps its state in memory, in step with its appends. A failed append leaves the
// memory ahead of the log, so every failure ends the Journal: the owner drops its memory and
// calls Open again.
package journal
