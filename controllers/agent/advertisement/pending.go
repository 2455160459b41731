package advertisement

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// mostPending bounds how many resources are shown as pending. Pods that no node takes may
// ask for anything, by any name.
const mostPending = 32

// foremost are the first resources by name, those that the cluster has before all others.
func foremost(pending, capacity quantity.Amounts) quantity.Amounts {
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

// demandMoved reports whether what is pending differs so much from before that it is to be
// shown: from what there is, at any moment; from what was pending, once the broker is told
// anyway. So a backlog that comes and goes does not make a write each time.
func (o *offer) demandMoved(before *offer, due bool) bool {
	whole := before.pending
	if !due {
		whole = whole.Max(before.allocatable)
	}
	return moved(before.pending, o.pending, whole)
}

// newPendingGauge makes the metric of it.
func newPendingGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agent_pending_requests",
		Help: "What this cluster's own pods request that the scheduler finds no node for, in cores, bytes or pieces.",
	}, []string{"resource"})
}
