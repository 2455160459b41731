// Package ledger is the book of who holds what of whom: a state machine without
// clock, lock, context or I/O.
//
// An Event is a Change at a time. Every type of change says in its own file what it is
// called in the journal, which reservation it is about, when the state allows it (check)
// and what it does (apply); changes in event.go lists them all. State.Check returns the
// event ready to be applied, so a change is checked once, written to the journal, and then
// applied. Both are deterministic, so a log of events replayed from nothing or from a
// Snapshot gives the same state everywhere.
//
// What holds after every event, for every provider and resource:
//
//   - a placement is granted only if it fits into
//     offered − Σ over placements max(held, used), offered being what the
//     provider's cluster has less what its own pods request;
//   - capacity is given back only by ProviderGone, the provider's own word, or at
//     once where no agent ever spoke for the provider;
//   - one key of one requester names one reservation, or none, until Forget drops it;
//   - what is settled stays settled: a cluster whose agent enrols later changes
//     nothing about placements that were given up before.
package ledger
