// Package ledger is the book of reservations and the capacity that each holds at its provider.
// It is a state machine without clock, lock, context or I/O.
//
// A State consists of the clusters with their offers and holds, the reservations with their
// placements, the Quotes and the Lineages. The methods of each part change that part alone;
// those of State and of the changes join them.
//
// An Event is a Change at a time. Every type of change is defined in its own file: the
// reservation it concerns (subject), the condition under which the state allows it
// (checkAgainst), and its effect (applyTo). changeTypes in event.go lists all types by their
// names in the journal.
//
// State.Check returns the event ready to be applied. So a change is checked once, written to
// the journal, and then applied. Both steps are deterministic: replaying a log of events, from
// the beginning or from a Snapshot, always gives the same state.
//
// The following holds after every event, for every provider and resource:
//
//   - a placement is granted only if it fits into
//     offered − Σ over placements max(held, used), where offered is the capacity of the
//     provider's cluster minus the requests of the cluster's own pods;
//   - capacity becomes free only with ProviderGone, which the provider's agent reports, or
//     at once if the provider has never had an agent;
//   - a key of a requester names at most one reservation until Forget drops it;
//   - a placement that was given up stays given up: if its cluster enrols an agent later,
//     nothing about it changes.
package ledger
