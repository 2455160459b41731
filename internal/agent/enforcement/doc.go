// Package enforcement decides what a consumer's pods may use of this cluster: which pods
// are admitted for a placement, which are evicted when they exceed its grant, and on which
// nodes they may run.
//
// Liqo keeps a quota of its own, but a consumer can make it miscount. This package counts
// pods, not what Liqo noted about them: every pod that has not finished counts in full, a
// terminating one too, with the requests that kube-scheduler computes.
//
// Admission is exact: pods that were admitted count from that moment, before any cache
// shows them. Eviction is for what admission did not see, such as pods that were created
// while the webhook was off.
package enforcement
