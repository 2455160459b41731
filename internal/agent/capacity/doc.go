// Package capacity counts this cluster's resources, the requests of its own pods and the pods
// that run here for reservations.
//
//	API server ──reflectors──▶ sinks ──facts──▶ accounts ──▶ Snapshot
//	                          (trim)           (running totals)
//
// The package keeps no API objects. It reduces a pod to a record of about a hundred bytes,
// and a node to its amounts. Every event updates running totals, so the cost of a Snapshot
// depends on the number of changes since the previous one, not on the size of the cluster.
//
// What counts:
//
//   - Capacity is the sum over all nodes, except the virtual nodes of Liqo.
//   - A node "counts" while it is Ready, schedulable, selected for lending, not a virtual node of
//     Liqo, and has no taint that ordinary pods do not tolerate. Allocatable and the node shapes
//     cover the nodes that count.
//   - A pod counts from when it is bound to a node until it has finished, and only while
//     this node counts: capacity of other nodes is not offered anyway.
//   - The requests of a pod that Liqo runs here for a placement are "used" by that
//     placement. The requests of all other pods, which are this cluster's own, are "allocated".
//   - An own pod is "pending" if the scheduler finds no node for it. Pods without a node
//     are watched separately; most of them are bound within a moment and never count as pending.
package capacity
