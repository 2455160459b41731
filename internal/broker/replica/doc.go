// Package replica runs several brokers as replicas: one leads, and the others forward agents'
// connections to it.
//
//	              ┌ leads ──▶ REST server ◀── direct listener ◀─┐
//	agent ─▶ Front┤                                             │ TCP, spliced
//	              └ follows ────────────────────────────────────┘ to the leader
//
// The lease says which replica should lead, and at which address other replicas reach it. It does
// not prevent two replicas from writing at the same time; the journal does. Therefore a replica
// that loses the lease stops leading but keeps running, and a lease that expires too early only
// interrupts connections.
//
// A follower cannot read what it forwards: TLS ends at the leader.
package replica
