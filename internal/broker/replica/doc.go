// Package replica runs several brokers as replicas: one leads, and the others forward agents'
// connections to it.
//
//	              ┌ leads ──▶ REST server ◀── direct listener ◀─┐
//	agent ─▶ Front┤                                             │ TCP, spliced
//	              └ follows ────────────────────────────────────┘ to the leader
//
// The lease says who should lead and where the leader is reached. It does not fence; the
// journal does. So a lost lease ends a term of leadership and not the process, and a lease that
// expires early costs only connections.
//
// A follower cannot read what it forwards: TLS ends at the leader.
package replica
