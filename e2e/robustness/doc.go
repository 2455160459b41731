// Package robustness causes faults in a broker while clusters use it. It then proves that the broker kept its
// promises. The evidence is the broker's answers to the clusters and all revisions of its journal.
//
//   - Programs and certificates are real: etcd, an API server, one or two brokers,
//     and clusters that use mTLS. Only the agents are simulated, in this process: they
//     carry out instructions at once, and remember them.
//   - Eight clients reserve, read and release slots of five clusters without agents,
//     where released capacity is free at once. The answers that they get must be
//     linearizable (history_test.go).
//   - Clusters with agents acknowledge, refuse or ignore placements. They report an
//     error if the broker gives them more than they have (agents_test.go).
//   - etcd is watched from before the first record of the journal, and every revision
//     is replayed through the ledger (records_test.go).
//   - Within 5 s after the last fault, the objects must equal the book
//     (converge_test.go).
//
// LRB_SOAK=1 causes the full number of faults. LRB_SEED sets the seed, to repeat an earlier run.
package robustness
