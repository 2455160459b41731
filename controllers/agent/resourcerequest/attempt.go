package resourcerequest

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// continueOver handles a request that is over. An edit asks for it anew, unless spec.release is
// set.
func (r *Reconciler) continueOver(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	switch {
	case rr.Generation == rr.Status.ObservedGeneration:
		return never, nil
	case !rr.Spec.Release:
		return r.beginAttempt(ctx, rr)
	case rr.Status.Phase == agentv1alpha1.RequestFailed:
		return r.releaseEnded(ctx, rr)
	}
	before := rr.DeepCopy()
	r.editStatus(rr)
	return never, r.saveStatus(ctx, rr, before)
}

// beginAttempt prepares an edited request that is over for its next attempt, which has an
// idempotency key of its own.
//
// Nothing is reserved twice: the broker first closes the key of the previous attempt, so that a
// call that is still on its way reserves nothing, and everything of the attempt is gone from this
// cluster. Only then is the next attempt written, and the next reconcile, which has read it from
// the cache, asks. Each step can be repeated after a crash.
func (r *Reconciler) beginAttempt(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if rr.Status.Asked {
		if again, err := r.closeKey(ctx, rr); again > 0 || err != nil {
			return again, err
		}
	}
	left, err := r.releaseInstructions(ctx, rr)
	if err != nil || len(left) > 0 {
		return never, err // the end of an instruction is an event
	}
	r.forgetRenewal(rr.UID)
	before := rr.DeepCopy()
	rr.Status = agentv1alpha1.ResourceRequestStatus{Attempt: before.Status.Attempt + 1, Phase: agentv1alpha1.RequestPending}
	status := r.editStatus(rr)
	const message = "the request was edited; the broker is asked again"
	status.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonPending, message)
	status.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPending, message)
	return never, r.saveStatus(ctx, rr, before)
}

// closeKey closes the key of a request that is over. It returns when to try again if the broker
// does not answer.
func (r *Reconciler) closeKey(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if r.retries.IsInBackOffSinceUpdate(string(rr.UID), r.options.Clock.Now()) {
		return r.retries.Get(string(rr.UID)), nil
	}
	no, err := r.releaseKey(ctx, rr)
	if err == nil {
		return never, nil
	}
	before := rr.DeepCopy()
	status := r.editStatus(rr)
	status.leaveEditUnobserved()
	status.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonBrokerUnreachable,
		fmt.Sprintf("the request was edited; it is asked for again once the broker answers: %v", err))
	return r.backOff(rr, no), r.saveStatus(ctx, rr, before)
}
