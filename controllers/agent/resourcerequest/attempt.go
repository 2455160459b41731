package resourcerequest

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// continueOver handles a request whose attempt is over. If the request was edited since, it begins
// a new attempt. If the edit set spec.release, continueOver instead releases what a failed attempt
// may still hold, and leaves a released request as it is.
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

// beginAttempt prepares another attempt for an edited request that is over. The new attempt has its
// own idempotency key, and the next reconcile asks the broker.
//
// Nothing may be reserved twice. Therefore the broker first closes the key of the previous attempt,
// so that a delayed call with that key reserves nothing, and this cluster must have no instructions
// of that attempt left. Each step can be repeated after a crash.
func (r *Reconciler) beginAttempt(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if rr.Status.Asked {
		if again, err := r.closeKey(ctx, rr); again > 0 || err != nil {
			return again, err
		}
		failpoint.Hit(failpoint.RequestKeyClosed)
	}
	left, err := r.releaseInstructions(ctx, rr, nil)
	if err != nil || len(left) > 0 {
		return never, err // an event follows when an instruction is gone
	}
	r.forgetRenewal(rr.UID)
	before := rr.DeepCopy()
	rr.Status = agentv1alpha1.ResourceRequestStatus{Attempt: before.Status.Attempt + 1, Phase: agentv1alpha1.RequestPending}
	status := r.editStatus(rr)
	const message = "the request was edited; the broker is asked again"
	status.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonPending, message)
	status.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPending, message)
	if err := r.saveStatus(ctx, rr, before); err != nil {
		return never, err
	}
	failpoint.Hit(failpoint.RequestAttemptBegun)
	return never, nil
}

// closeKey makes the broker close the idempotency key of a request that is over. If the broker does
// not answer, closeKey returns the delay before the next try, otherwise the constant never.
func (r *Reconciler) closeKey(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if r.retries.IsInBackOffSinceUpdate(string(rr.UID), r.options.Clock.Now()) {
		return r.retries.Get(string(rr.UID)), nil
	}
	_, no, err := r.releaseKey(ctx, rr)
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
