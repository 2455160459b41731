// Package robustness breaks a broker while clusters use it. It then proves that the broker kept its promises, from
// the answers to the clusters and from every revision of its journal.
//
//   - Programs and certificates are real: etcd, an API server, one or two brokers,
//     clusters that use mTLS. Only the agents are simulated, in this process: they
//     carry out instructions at once, and remember them.
//   - Eight clients reserve, read and release slots of five clusters without agents,
//     where released capacity is free at once. Their answers must be linearizable
//     (history_test.go).
//   - Clusters with agents acknowledge, refuse or ignore placements, and raise an
//     alarm when they are given more than they have (agents_test.go).
//   - etcd is watched from before the first record of the journal, and every revision
//     is replayed through the ledger (records_test.go).
//   - Within 5 s after the last fault, the objects must equal the book
//     (converge_test.go).
//
// LRB_SOAK=1 runs the full counts. LRB_SEED repeats the seed of an earlier run.
package robustness
