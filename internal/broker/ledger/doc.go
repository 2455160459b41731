// Package ledger is the broker's book: the reservations, and the capacity that each of them holds
// at its provider. It is a state machine without clock, lock, context or I/O.
//
// A State, which comments call the book, contains the clusters with their offers and the amounts
// held there, the reservations with their placements, the Quotes and the Lineages. A placement is
// one attempt to serve a reservation on one provider. A placement stands until it is given up or
// its reservation ends. The capacity that it holds stays locked until the provider reports the
// placement as gone.
//
// An Event is a Change, with its time and its author. Every type of change defines the reservation
// that it concerns (subject), the condition under which the state allows it (checkAgainst), and
// its effect (applyTo). changeTypes in event.go lists all types by their names in the journal.
//
// State.Check checks an event and returns it as a Checked, which can be applied. So the broker
// checks a change once, appends it to the journal, and then applies it. Both steps are
// deterministic: replaying a log of events, from the beginning or from a Snapshot, always gives
// the same state.
//
// The following holds after every event, for every provider and resource:
//
//   - a placement is granted only if it fits into
//     offered − Σ over placements max(held, used) − Σ over quotes held, where offered is the
//     allocatable amount of the provider's cluster, times its over-subscription ratio, minus the
//     requests of the cluster's own pods;
//   - the capacity of a placement that was given up becomes free only with ProviderGone, which the
//     provider's agent reports, with ForgetCluster, or at once if the provider has no agent;
//   - a key of a requester names at most one reservation until Forget drops the key;
//   - a placement that was given up stays given up: if its cluster enrols an agent later,
//     nothing about the placement changes.
package ledger
