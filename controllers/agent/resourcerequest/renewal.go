package resourcerequest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// askGap is the shortest time between two calls for one request that has no good answer
	// yet.
	askGap = 500 * time.Millisecond
	// askAgain is when to poll for an outstanding answer if the broker does not say.
	askAgain = 5 * time.Second
	// longestRenewal bounds the renewal interval that the broker may set.
	longestRenewal = 24 * time.Hour
)

// renewal remembers the broker's last answer to a request.
type renewal struct {
	// answered is when the answer arrived.
	answered time.Time
	// due is when to ask again; zero for a reservation with a duration.
	due time.Time
	// generation of the request that the broker answered.
	generation int64
	// shown is the generation whose answer the status shows.
	shown int64
}

// recordRenewal records an answer and returns when to ask again.
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

// untilAsking reports whether to ask the broker now, and if not, how long to wait.
//
// The broker is asked about a request that is new or was edited, after a restart, while there
// is no good answer, to renew, and to learn the place in the queue. It is also asked when no
// instruction of a granted reservation stands: a released instruction may mean the end of the
// whole reservation or only of one placement.
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
		// The outcome arrives over the stream. Only the place in the queue must be polled.
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

// dropAnswer makes the agent ask the broker again.
func (r *Reconciler) dropAnswer(rr *agentv1alpha1.ResourceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.renewals, rr.UID)
}

// isAnswered reports whether the broker has answered the current version of a request that stands.
func (r *Reconciler) isAnswered(rr *agentv1alpha1.ResourceRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, known := r.renewals[rr.UID]
	return known && l.generation == rr.Generation && rr.Status.Phase != agentv1alpha1.RequestReleasing
}

// markShown records that the status shows the broker's last answer. If writing the status failed,
// the broker is asked again.
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
	r.retries.DeleteEntry(string(uid))
}
