package enforcement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

const (
	// wakeEvery is the shortest time between two retries of one ShadowPod, and between its creation
	// and the first retry, because Liqo itself handles new ShadowPods.
	wakeEvery = 2 * time.Second
	// retryEvery is the time between two retries of a ShadowPod that fits into the grant, because
	// nothing tells the agent when another reason for the refusal is gone, for example a pod of this
	// cluster with the same name.
	retryEvery = 30 * time.Second
	// mostWoken is the largest number of ShadowPods that one reconcile reads.
	mostWoken = 32
)

// wakeWaiting makes Liqo retry pods that were refused and now fit into the grant, oldest first. It
// returns the time until a pod is to be retried again, 0 if none waits.
func (r *Reconciler) wakeWaiting(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, room quantity.Amounts) (time.Duration, error) {
	waiting, err := r.opts.Peering.WaitingPods(ctx, inst.Name, r.opts.Book.Has)
	if err != nil {
		return 0, err
	}
	now := r.opts.Clock.Now()
	r.forgetWoken(now)
	known := r.rememberWaiting(inst.Name, waiting)
	var next time.Duration
	reads := 0
	for _, w := range waiting {
		if seen, ok := known[w.UID]; ok && !seen.fits(room) {
			continue
		}
		if reads == mostWoken {
			return soonestOf(next, wakeEvery), nil
		}
		reads++
		retry, err := r.opts.Peering.ReadWaiting(ctx, w)
		if err != nil {
			return 0, err
		}
		if retry == nil {
			known[w.UID] = seenPod{ended: true}
			continue
		}
		request := enforcement.RequestOf(retry.Pod)
		known[w.UID] = seenPod{request: request}
		if !known[w.UID].fits(room) {
			continue
		}
		room = room.Sub(request)
		if left := r.mayWakeIn(w.UID, w.Created.Time, now); left > 0 {
			next = soonestOf(next, left)
			continue
		}
		r.woken[w.UID] = now
		if err := r.opts.Peering.Retry(ctx, retry); err != nil {
			return 0, err
		}
		next = soonestOf(next, retryEvery)
	}
	return next, nil
}

// seenPod is what the reconciler has read of a ShadowPod that waits, so that pods that do not fit are
// read only once and do not keep newer ones from being tried.
type seenPod struct {
	request quantity.Amounts
	// ended is true if the ShadowPod no longer gets a pod.
	ended bool
}

func (p seenPod) fits(room quantity.Amounts) bool {
	_, fits := quantity.Fits(p.request, room)
	return fits && !p.ended
}

// rememberWaiting returns what is known of the waiting ShadowPods of a placement. The caller adds
// what it reads. It forgets ShadowPods that no longer wait.
func (r *Reconciler) rememberWaiting(placement string, waiting []guard.WaitingPod) map[types.UID]seenPod {
	before, now := r.seen[placement], map[types.UID]seenPod{}
	for _, w := range waiting {
		if p, ok := before[w.UID]; ok {
			now[w.UID] = p
		}
	}
	if r.seen[placement] = now; len(waiting) == 0 {
		delete(r.seen, placement)
	}
	return now
}

// mayWakeIn returns how long to wait before retrying a ShadowPod. The result is not positive if it
// may be retried now.
func (r *Reconciler) mayWakeIn(uid types.UID, created, now time.Time) time.Duration {
	since := created
	if woken, ok := r.woken[uid]; ok {
		since = woken
	}
	return since.Add(wakeEvery).Sub(now)
}

func (r *Reconciler) forgetWoken(now time.Time) {
	for uid, at := range r.woken {
		if now.Sub(at) >= wakeEvery {
			delete(r.woken, uid)
		}
	}
}
