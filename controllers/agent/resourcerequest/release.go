package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// releaseDeleted gives back everything of a request that is being deleted. It takes down the objects
// in this cluster whether or not the broker answers. The request stays until both are done.
func (r *Reconciler) releaseDeleted(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(rr, agentv1alpha1.ReleaseFinalizer) {
		return never, nil
	}
	before := rr.DeepCopy()
	status := r.editStatus(rr)
	again, left, err := r.leaveReservation(ctx, rr, status, agentv1alpha1.ReasonDeleted)
	if err != nil {
		return never, err
	}
	if left > 0 || !isGivenBack(rr) {
		return again, r.saveStatus(ctx, rr, before)
	}
	r.forgetRenewal(rr.UID)
	return never, r.removeFinalizer(ctx, before)
}

// releaseEnded gives back everything of a request that was released. The request itself stays readable.
func (r *Reconciler) releaseEnded(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	before := rr.DeepCopy()
	status := r.editStatus(rr)
	again, left, err := r.leaveReservation(ctx, rr, status, agentv1alpha1.ReasonReleased)
	if err != nil {
		return never, err
	}
	if left == 0 && isGivenBack(rr) {
		r.forgetRenewal(rr.UID)
		status.setReleased()
	}
	return again, r.saveStatus(ctx, rr, before)
}

// leaveReservation gives the reservation back and takes its instructions down. It returns how many
// instructions are left.
func (r *Reconciler) leaveReservation(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor, reason string) (again time.Duration, left int, err error) {
	began := status.isReleasing()
	again = r.giveBack(ctx, rr, status)
	all, err := r.releaseInstructions(ctx, rr)
	if err != nil {
		return never, 0, err
	}
	if len(all) > 0 && !began {
		status.setEnding(reason, "the request is being released: pods are evicted from its virtual node before it is removed")
	}
	status.setDrained(all)
	return again, len(all), nil
}

// giveBack releases the reservation at the broker, once. The release also closes a key that the
// broker does not know, so that a request still in flight is rejected on arrival.
func (r *Reconciler) giveBack(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) time.Duration {
	if isGivenBack(rr) {
		return never
	}
	if !rr.Status.Asked {
		status.setGivenBack("the broker was never asked for capacity")
		return never
	}
	if now := r.options.Clock.Now(); status.isReleasing() && r.retries.IsInBackOffSinceUpdate(string(rr.UID), now) {
		return r.retries.Get(string(rr.UID))
	}
	if no, err := r.releaseKey(ctx, rr); err != nil {
		status.setStuck(err)
		return r.backOff(rr, no)
	}
	status.setGivenBack("the broker has released the reservation; the virtual node is being removed")
	return never
}

// releaseKey releases what the broker holds under the request's key, and closes the key.
func (r *Reconciler) releaseKey(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (*fault.Error, error) {
	calling, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	_, err := r.broker.ReleaseReservation(calling, rr.IdempotencyKey())
	no, considered := errors.AsType[*fault.Error](err)
	if err != nil && (!considered || no.Reason != fault.NotFound && no.Reason != fault.Released) {
		return no, err
	}
	failpoint.Hit(failpoint.RequestGivenBack)
	r.retries.Reset(string(rr.UID))
	return nil, nil
}

// isGivenBack reports whether the broker has confirmed the release.
func isGivenBack(rr *agentv1alpha1.ResourceRequest) bool {
	c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	return rr.Status.Phase == agentv1alpha1.RequestReleasing && c != nil && c.Reason == agentv1alpha1.ReasonReleased
}

// releaseInstructions releases the request's instructions and returns those that are left.
func (r *Reconciler) releaseInstructions(ctx context.Context, rr *agentv1alpha1.ResourceRequest) ([]agentv1alpha1.ReservationInstruction, error) {
	all, err := r.listInstructions(ctx, rr)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Spec.Release {
			continue
		}
		if err := inbox.ReleaseConsumer(ctx, r.client, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// removeFinalizer removes the finalizer, so that the request can be deleted.
func (r *Reconciler) removeFinalizer(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	if err := patch.RemoveFinalizer(ctx, r.client, rr, agentv1alpha1.ReleaseFinalizer); err != nil {
		return fmt.Errorf("remove finalizer of resource request %q: %w", rr.Name, err)
	}
	failpoint.Hit(failpoint.RequestLetGo)
	r.recordReleased(ctx, rr)
	return nil
}

func (e editor) isReleasing() bool { return e.rr.Status.Phase == agentv1alpha1.RequestReleasing }

// setGivenBack records that the broker has taken the reservation back.
func (e editor) setGivenBack(message string) {
	e.rr.Status.Queue = nil
	e.rr.Status.Phase = agentv1alpha1.RequestReleasing
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
}

// setReleased records that nothing is reserved, as spec.release asked.
func (e editor) setReleased() {
	const message = "all capacity was released, as spec.release asked\nTo get capacity again, create another request."
	e.rr.Status.Phase = agentv1alpha1.RequestReleased
	e.clearPlacement()
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
}

// setStuck records that the broker has not taken the reservation back yet.
func (e editor) setStuck(err error) {
	message := "the broker has not confirmed the release yet; meanwhile the virtual node is removed, and the request stays until the broker answers: " +
		err.Error()
	e.rr.Status.Phase = agentv1alpha1.RequestReleasing
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionUnknown, agentv1alpha1.ReasonBrokerUnreachable, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonBrokerUnreachable, message)
}
