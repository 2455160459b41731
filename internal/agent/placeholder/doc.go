// Package placeholder decides which placeholder pods should exist. Placeholders keep reserved capacity
// that the consumer does not use yet, so that no other pod takes it.
//
// Placeholders have the priority of ordinary pods. Pods of equal priority cannot preempt each other, so
// ordinary pods cannot take reserved capacity, and offloaded pods get it only when placeholders of
// their placement are deleted. If placeholders had a lower priority, any pod could preempt them. If
// offloaded pods had a higher priority, the scheduler might preempt this cluster's own pods instead.
//
// When the scheduler finds no node for an offloaded pod, the pod is nominated for a node on which its
// placement has placeholders. Then as many of these placeholders are deleted as necessary. The
// scheduler keeps the freed room for the nominated pod, even if other pods wait.
package placeholder
