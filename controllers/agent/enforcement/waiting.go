package enforcement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

const (
	// wakeEvery is the shortest time before each of the first two retries of a ShadowPod. The first one
	// counts from its creation, because Liqo itself handles new ShadowPods.
	wakeEvery = 2 * time.Second
	// retryEvery is the time between further retries of a ShadowPod that fits into the grant, because
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
	known := r.rememberWaiting(inst.Name, waiting)
	var next time.Duration
	reads := 0
	for _, w := range waiting {
		pod, seen := known[w.UID]
		left := pod.retryAt(w.Created.Time).Sub(now)
		switch {
		case seen && !pod.fits(room):
			continue
		case seen && left > 0:
			room, next = room.Sub(pod.request), patch.Soonest(next, left)
			continue
		case reads == mostWoken && seen:
			return patch.Soonest(next, retryEvery), nil
		case reads == mostWoken:
			return patch.Soonest(next, wakeEvery), nil
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
		pod.request = enforcement.RequestOf(retry.Pod)
		known[w.UID] = pod
		if !pod.fits(room) {
			continue
		}
		room = room.Sub(pod.request)
		if left > 0 {
			next = patch.Soonest(next, left)
			continue
		}
		pod.retries, pod.retried = pod.retries+1, now
		known[w.UID] = pod
		if err := r.opts.Peering.Retry(ctx, retry); err != nil {
			return 0, err
		}
		next = patch.Soonest(next, retryEvery)
	}
	return next, nil
}

// seenPod is what the reconciler has read of a ShadowPod that waits, so that pods that do not fit are
// read only once and do not keep newer ones from being tried.
type seenPod struct {
	request quantity.Amounts
	// ended is true if the ShadowPod no longer gets a pod.
	ended bool
	// retries is how often the reconciler made Liqo retry the ShadowPod, retried is when it last did.
	retries int
	retried time.Time
}

func (p seenPod) fits(room quantity.Amounts) bool {
	_, fits := quantity.Fits(p.request, room)
	return fits && !p.ended
}

// retryAt returns the earliest time of the next retry of a ShadowPod. A pod that an event may have
// made possible is retried soon, but one that is refused for another reason must not keep the agent
// busy.
func (p seenPod) retryAt(created time.Time) time.Time {
	switch p.retries {
	case 0:
		return created.Add(wakeEvery)
	case 1:
		return p.retried.Add(wakeEvery)
	}
	return p.retried.Add(retryEvery)
}

// rememberWaiting returns what is known of the waiting ShadowPods of a placement, and forgets all others.
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
