// Package capacity keeps account of what this cluster has, what its own pods
// request and what runs here for reservations.
//
//	API server ──reflectors──▶ sinks ──facts──▶ accounts ──▶ Snapshot
//	                          (trim)           (running totals)
//
// No object is kept. Of a pod a record of about a hundred bytes remains, of a
// node its amounts. Every event moves running totals, so a Snapshot costs what
// has changed since the last one and not what the cluster holds.
//
// What counts:
//
//   - A node is ours unless it is a virtual node of Liqo; ours make up Capacity.
//   - A node of ours counts while it is Ready, schedulable and selected to be lent;
//     those make up Allocatable and the node shapes.
//   - A pod counts from when it is bound until it has finished, and only while
//     its node counts: the capacity that it takes is then offered by nobody.
//   - A pod that Liqo runs here for a placement is used by that placement. Every
//     other pod is allocated.
//   - One of those others that the scheduler finds no node for is pending. Pods without
//     a node are watched apart: most of them are bound within a moment, and are never
//     counted.
package capacity
