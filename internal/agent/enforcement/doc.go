// Package enforcement limits a consumer's pods in this cluster. It decides which pods of a
// placement are admitted, which are evicted when they exceed its grant, and on which nodes
// they may run.
//
// Liqo enforces a quota of its own, but a consumer can make it miscount. This package counts
// the pods themselves: every pod that has not finished counts in full, even a terminating
// one, with the requests that kube-scheduler computes.
//
// Admission is exact: a pod counts from the moment of its admission, even before a watch
// reports it. Eviction is for pods that bypassed admission, for example because the webhook
// was off when they were created.
package enforcement
