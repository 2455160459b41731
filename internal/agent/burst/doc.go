// Package burst decides what a BurstPolicy asks for: which unschedulable pods could run on a virtual
// node (KindOf), and which of its ResourceRequests to create, enlarge or end (MakePlan).
//
//	pods ──KindOf──▶ kinds, counted ──GroupPods──▶ groups ─┐
//	                                          requests ────┴──MakePlan──▶ a Plan: at most one change, and when to plan again
//
// A group is the pods of one size that may run at the same places. Each group has requests of its
// own, because a request has one set of constraints, and its amounts are whole pods of one size.
//
// MakePlan keeps these rules:
//
//   - At most one change in a minute (Pause).
//   - All requests together never ask for more than the limit.
//   - A request is enlarged before a second one is created for its group.
//   - A request ends only after its node was empty for the policy's time. The node is cordoned
//     first, so that no pod can come after the last check.
package burst
