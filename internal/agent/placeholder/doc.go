// Package placeholder decides which pods keep reserved capacity that its consumer does not use
// yet, so that no other pod takes it.
//
// Pods of the same priority cannot preempt each other. Placeholders therefore have the priority
// of ordinary pods: ordinary pods cannot take reserved capacity, and offloaded pods can only
// take it when placeholders of their own reservation are deleted. If placeholders had a lower
// priority, any pod could preempt them. If offloaded pods had a higher priority, the scheduler
// might preempt this cluster's own pods instead.
//
// When the scheduler finds no node for an offloaded pod, the pod is nominated for a node on
// which its reservation has placeholders. Then as many of these are deleted as necessary. The
// scheduler keeps the freed room for the nominated pod, even if other pods wait.
package placeholder
