package advertisement

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// mostPending bounds how many resources are shown as pending. Unschedulable pods may request
// any number of resources under any name.
const mostPending = 32

// firstPending returns at most mostPending resources: first those that the cluster has, then the
// others, each group by name.
func firstPending(pending, capacity quantity.Amounts) quantity.Amounts {
	if len(pending) <= mostPending {
		return pending
	}
	names := pending.Names()
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Compare(min(capacity[b], 1), min(capacity[a], 1))
	})
	out := make(quantity.Amounts, mostPending)
	for _, name := range names[:mostPending] {
		out[name] = pending[name]
	}
	return out
}

// demandMoved reports whether the pending amounts changed enough to be written. Between regular
// advertisements the change is measured against allocatable; when one is due, against the
// previous pending amounts. This way a backlog that comes and goes does not cause a write each
// time.
func (o *offer) demandMoved(before *offer, due bool) bool {
	whole := before.pending
	if !due {
		whole = whole.Max(before.allocatable)
	}
	return hasMoved(before.pending, o.pending, whole)
}

// newPendingGauge creates the metric of pending requests.
func newPendingGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agent_pending_requests",
		Help: "Requests of this cluster's own pods that the scheduler finds no node for, in cores, bytes or units.",
	}, []string{"resource"})
}
