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
	// askGap is the least time between two questions about one request that has
	// no good answer yet.
	askGap = 500 * time.Millisecond
	// askAgain is when an answer that is out is asked for again, where the broker
	// does not say.
	askAgain = 5 * time.Second
	// longestLease bounds what the broker may say of the next renewal.
	longestLease = 24 * time.Hour
)

// lease is what is remembered of the broker's last answer to a request.
type lease struct {
	// answered is when it came.
	answered time.Time
	// due is when to ask again; zero for a reservation with a duration.
	due time.Time
	// generation of the request that was answered.
	generation int64
	// shown is the generation whose answer stands in the status.
	shown int64
}

// lease notes an answer and returns when to ask again.
func (r *Reconciler) lease(rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation) time.Duration {
	wait := time.Duration(min(answer.RenewSeconds, longestLease.Seconds()) * float64(time.Second))
	if answer.Instruction.Reservation == "" && wait <= 0 {
		wait = askAgain
	}
	l := lease{answered: r.options.Clock.Now(), generation: rr.Generation}
	if wait > 0 {
		wait = max(wait, time.Second)
		l.due = l.answered.Add(wait)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[rr.UID] = l
	return max(wait, never)
}

// untilAsking reports whether the broker is to be asked now, and if not, when.
//
// It is asked for the first time, also after a restart; while there is no good answer;
// to renew, or to learn the place in the queue; where the request was edited; and where
// nothing stands of what it granted. The last is how the end of a
// reservation is learned: an instruction that is released may have ended the
// reservation, or only one placement of it.
func (r *Reconciler) untilAsking(rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction) (time.Duration, bool) {
	if rr.Status.Phase == agentv1alpha1.RequestReleasing {
		return never, false
	}
	now := r.options.Clock.Now()
	if r.retries.IsInBackOffSinceUpdate(string(rr.UID), now) {
		return r.retries.Get(string(rr.UID)), false
	}
	r.mu.Lock()
	l, known := r.leases[rr.UID]
	r.mu.Unlock()

	standing := slices.ContainsFunc(all, func(i agentv1alpha1.ReservationInstruction) bool { return stands(&i) })
	good := standing && meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	var due time.Time
	switch {
	case !known, l.shown != rr.Generation:
		return never, true
	case rr.Status.Phase == agentv1alpha1.RequestQueued && !standing:
		// What becomes of it comes over the stream; only its place may be another.
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

// shown notes that the status tells what the broker has last answered. After a failure
// in between the broker is asked again.
func (r *Reconciler) shown(rr *agentv1alpha1.ResourceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.leases[rr.UID]; ok {
		l.shown = l.generation
		r.leases[rr.UID] = l
	}
}

func (r *Reconciler) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leases, uid)
	r.retries.DeleteEntry(string(uid))
}
