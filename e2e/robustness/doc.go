// Package robustness breaks a broker while clusters use it, and proves from what
// they were told, and from every revision of its journal, that it kept its promises.
//
//   - Programs and certificates are real: etcd, an API server, one or two brokers,
//     clusters that speak mTLS. Only the agents are played, in this process: they do
//     what they are told at once, and remember it.
//   - Eight clients reserve, read and give back slots of five clusters without agents,
//     which are free again at once. What they were answered must be linearizable
//     (history_test.go).
//   - Clusters with agents acknowledge, refuse or ignore what they are given, and
//     alarm when they are given more than they have (agents_test.go).
//   - etcd is watched from before the first record of the journal on, and every
//     revision replayed through the ledger (records_test.go).
//   - When the last fault is over, what is shown must equal the book within 5 s
//     (converge_test.go).
//
// LRB_SOAK=1 takes the full counts, LRB_SEED the seed of a run before.
package robustness
