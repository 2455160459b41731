// Package replica lets several brokers stand for each other: one leads, the others
// pass what agents send on to it.
//
//	              ┌ leads ──▶ REST server ◀── direct listener ◀─┐
//	agent ─▶ Front┤                                             │ TCP, spliced
//	              └ follows ────────────────────────────────────┘ to the leader
//
// The lease says who should lead and where the leader is reached. It fences
// nothing: that is the journal's part. So a lease that is lost ends a term and not
// the process, and one that expires early costs connections and nothing else.
//
// A follower understands nothing of what it passes on: TLS ends at the leader.
package replica
