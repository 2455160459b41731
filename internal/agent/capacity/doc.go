// Package capacity counts this cluster's resources, the requests of its own pods and
// the pods that run here for reservations.
//
//	API server ──reflectors──▶ sinks ──facts──▶ accounts ──▶ Snapshot
//	                          (trim)           (running totals)
//
// No object is kept. A pod is reduced to a record of about a hundred bytes, and a
// node to its amounts. Every event updates running totals, so the cost of a Snapshot
// depends on the changes since the last one, not on the size of the cluster.
//
// What counts:
//
//   - A node is ours unless it is a virtual node of Liqo. Capacity sums our nodes.
//   - A node of ours counts while it is Ready, schedulable, selected for lending and
//     without a taint that ordinary pods do not tolerate.
//     Allocatable and the node shapes cover the nodes that count.
//   - A pod counts from its binding until it has finished, and only while its node
//     counts: the capacity of a node that does not count is not offered anyway.
//   - The requests of a pod that Liqo runs here for a placement are used by that
//     placement. The requests of every other pod are allocated.
//   - Such another pod is pending if the scheduler finds no node for it. Pods without
//     a node have a watch of their own. Most of them are bound within a moment and
//     never count as pending.
package capacity
