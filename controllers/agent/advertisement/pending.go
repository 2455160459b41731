package advertisement

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// mostPending is how many resources the Advertisement shows as pending at most, because
// unschedulable pods may request any number of resource names.
const mostPending = 32

// maxWaitingSeconds is the longest wait that the broker accepts, ten years.
const maxWaitingSeconds = 315_360_000

// wirePending returns nil if no pod waits. It contains how long the first pod has waited instead of since when,
// because the broker's clock may differ.
func (o *offer) wirePending(now time.Time) *v1.PendingDemand {
	if o.pending.IsZero() {
		return nil
	}
	waiting := int64(now.Sub(o.pendingSince) / time.Second)
	return &v1.PendingDemand{Requests: wire.FromAmounts(o.pending), WaitingSeconds: min(max(waiting, 0), maxWaitingSeconds)}
}

// firstPending returns at most mostPending of the pending resources. Resources that the cluster has
// come first, then all others; each group is sorted by name. No amount is above quantity.Limit,
// because the broker would refuse the whole advertisement.
func firstPending(pending, capacity quantity.Amounts) quantity.Amounts {
	pending = pending.Clone()
	for name, amount := range pending {
		pending[name] = min(amount, quantity.Limit)
	}
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

// demandMoved reports whether the pending amounts changed enough to be written. When the regular
// advertisement is due, a change of an amount by more than 2 %, or of pendingSince, is enough.
// Otherwise an amount must change by more than 2 % of the allocatable or the pending amount,
// whichever is larger, so that a backlog of pods that comes and goes does not cause a write each
// time.
func (o *offer) demandMoved(before *offer, due bool) bool {
	if due && !before.pendingSince.Equal(o.pendingSince) {
		return true
	}
	whole := before.pending
	if !due {
		whole = whole.Max(before.allocatable)
	}
	return hasMoved(before.pending, o.pending, whole)
}
