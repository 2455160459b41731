// Package placeholder decides which pods stand in for reserved capacity that its
// consumer does not use yet, so that nobody else takes it meanwhile.
//
// Pods of the same priority cannot preempt each other. So placeholders have the priority
// of ordinary pods: these cannot take what is reserved, and the offloaded pods cannot
// either, unless the placeholders of their own reservation give way. Were placeholders of
// a lower priority, everybody could preempt them; were offloaded pods of a higher one,
// the scheduler would as soon preempt this cluster's own pods.
//
// When the scheduler has found no node for an offloaded pod, it is nominated for a node on
// which its reservation has placeholders, and then as many of those are deleted as it
// takes. The scheduler keeps room on a node for who is nominated there, whoever else waits.
package placeholder
