// Package enforcement limits a consumer's pods in this cluster. It decides which pods
// are admitted for a placement, which are evicted when they exceed its grant, and on which
// nodes they may run.
//
// Liqo keeps a quota of its own, but a consumer can make it miscount. This package counts
// the pods themselves: every pod that has not finished counts in full, even a
// terminating one, with the requests that kube-scheduler computes.
//
// Admission is exact: an admitted pod counts from that moment, before any cache
// shows it. Eviction is for pods that bypassed admission, such as pods created
// while the webhook was off.
package enforcement
