package resourcerequest

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// askGap is the shortest time between two calls about a request without a usable placement.
	askGap = 500 * time.Millisecond
	// askAgain is the delay before asking again about a request without a placement if the broker
	// does not name a delay.
	askAgain = 5 * time.Second
	// longestRenewal limits the renewal interval that the broker may ask for.
	longestRenewal = 24 * time.Hour
)

// renewal describes the broker's latest answer about a request.
type renewal struct {
	answered time.Time
	// due is when to ask the broker again, to renew the reservation or to update the place in the
	// queue. It is zero if neither is needed.
	due time.Time
	// generation is the request's metadata.generation when the broker answered.
	generation int64
	// shown is the generation for which the answer has been written into the status.
	shown int64
}

// recordRenewal remembers an answer of the broker and returns the delay before asking again.
func (r *Reconciler) recordRenewal(rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation) time.Duration {
	wait := time.Duration(min(answer.RenewSeconds, longestRenewal.Seconds()) * float64(time.Second))
	if answer.Instruction.Reservation == "" && wait <= 0 {
		wait = askAgain
	}
	l := renewal{answered: r.options.Clock.Now(), generation: rr.Generation}
	if wait > 0 {
		wait = max(wait, time.Second)
		l.due = l.answered.Add(wait)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewals[rr.UID] = l
	return max(wait, never)
}

// untilAsking reports whether to ask the broker now. If not, it also returns how long to wait, or
// the constant never.
//
// The agent asks about a request that is new or was edited and, after a restart, about every
// request. It asks repeatedly while a request has no usable placement, to renew the reservation,
// and to update the place in the queue. It also asks when all instructions of a reservation have
// been released: only the broker knows whether the reservation has ended or continues on another
// cluster.
func (r *Reconciler) untilAsking(rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction) (time.Duration, bool) {
	if rr.Status.Phase == agentv1alpha1.RequestReleasing {
		return never, false
	}
	now := r.options.Clock.Now()
	if r.retries.IsInBackOffSinceUpdate(string(rr.UID), now) {
		return r.retries.Get(string(rr.UID)), false
	}
	r.mu.Lock()
	l, known := r.renewals[rr.UID]
	r.mu.Unlock()

	standing := slices.ContainsFunc(all, func(i agentv1alpha1.ReservationInstruction) bool { return isStanding(&i) })
	good := standing && meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	var due time.Time
	switch {
	case !known, l.shown != rr.Generation:
		return never, true
	case rr.Status.Phase == agentv1alpha1.RequestQueued && !standing:
		// The agent asks only to update the place in the queue. A grant arrives as an instruction without
		// being asked for.
		due = l.due
	case !good:
		due = l.answered.Add(askGap)
	case l.due.IsZero():
		return never, false
	default:
		due = l.due
	}
	if !now.Before(due) {
		return never, true
	}
	return due.Sub(now), false
}

func (r *Reconciler) dropAnswer(rr *agentv1alpha1.ResourceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.renewals, rr.UID)
}

// isAnswered reports whether the broker's latest answer is about the current generation of the
// request and the request is not being released.
func (r *Reconciler) isAnswered(rr *agentv1alpha1.ResourceRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.renewals[rr.UID]
	return known && l.generation == rr.Generation && rr.Status.Phase != agentv1alpha1.RequestReleasing
}

// markShown is not called after a failed write of the status, so that the broker is asked again.
func (r *Reconciler) markShown(rr *agentv1alpha1.ResourceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.renewals[rr.UID]; ok {
		l.shown = l.generation
		r.renewals[rr.UID] = l
	}
}

func (r *Reconciler) forgetRenewal(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.renewals, uid)
	delete(r.obstacles, uid)
	r.retries.DeleteEntry(string(uid))
}

// obstacleFor is how long an obstacle is shown before the broker is asked again. The broker searches
// more often, but does not explain each search.
const obstacleFor = 5 * time.Minute

// obstacle is why no other cluster can take over a request.
type obstacle struct {
	asked time.Time
	why   string
}

// findObstacle returns why no other cluster takes over a request that may leave its provider. It
// returns "" if nothing prevents that, or if the broker does not say. It also returns after what time
// to look again, or the constant never.
func (r *Reconciler) findObstacle(ctx context.Context, rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction) (string, time.Duration) {
	r.mu.Lock()
	known := r.obstacles[rr.UID]
	delete(r.obstacles, rr.UID)
	r.mu.Unlock()
	current, now := currentOf(all), r.options.Clock.Now()
	if current == nil || !isStanding(current) || current.Spec.MoveAt == nil || rr.Spec.Healing == brokerv1alpha1.HealingWait || otherStanding(all, current) != nil {
		return "", never
	}
	if left := current.Spec.MoveAt.Sub(now); left > 0 {
		return "", left
	}
	if now.Sub(known.asked) >= obstacleFor {
		known = obstacle{asked: now}
		quote, err := r.broker.RequestQuote(ctx, "", wire.ReservationRequest(rr, r.options.ClusterID))
		if err == nil && quote.ClusterID == "" {
			known.why = quote.Message
		}
	}
	r.mu.Lock()
	r.obstacles[rr.UID] = known
	r.mu.Unlock()
	return known.why, known.asked.Add(obstacleFor).Sub(now)
}
