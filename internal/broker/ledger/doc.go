// Package ledger is the book of which reservation holds which capacity of which provider.
// It is a state machine without clock, lock, context or I/O.
//
// An Event is a Change at a time. Every type of change says in its own file which
// reservation it is about, when the state allows it (checkAgainst) and what it does
// (applyTo); changeTypes in event.go lists them all by their names in the journal.
// State.Check returns the event ready to be applied, so a change is checked once, written
// to the journal, and then applied. Both steps are deterministic, so a log of events that
// is replayed from nothing or from a Snapshot gives the same state everywhere.
//
// What holds after every event, for every provider and resource:
//
//   - a placement is granted only if it fits into
//     offered − Σ over placements max(held, used), where offered is what the provider's
//     cluster has less what its own pods request;
//   - capacity becomes free only with ProviderGone, which the provider's agent reports, or
//     at once if the provider has never had an agent;
//   - a key of a requester names at most one reservation until Forget drops it;
//   - a placement that was given up stays given up: an agent that enrols its cluster later
//     changes nothing about it.
package ledger
