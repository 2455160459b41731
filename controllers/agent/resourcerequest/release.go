package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// releaseDeleted releases the reservation of a request that is being deleted, and removes its
// instructions, even while the broker does not answer. It removes the request's finalizer once both
// are done.
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

// releaseEnded serves spec.release. The request itself stays, so that users can read its status.
func (r *Reconciler) releaseEnded(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	before := rr.DeepCopy()
	status := r.editStatus(rr)
	again, left, err := r.leaveReservation(ctx, rr, status, agentv1alpha1.ReasonReleased)
	if err != nil {
		return never, err
	}
	if left == 0 && isGivenBack(rr) {
		r.forgetRenewal(rr.UID)
		status.setAbsent(absentReleased, "all capacity was released, as spec.release asked")
	}
	return again, r.saveStatus(ctx, rr, before)
}

func (r *Reconciler) leaveReservation(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor, reason string) (again time.Duration, left int, err error) {
	began := status.isReleasing()
	ended, again := r.giveBack(ctx, rr, status)
	all, err := r.releaseInstructions(ctx, rr, ended)
	if err != nil {
		return never, 0, err
	}
	if len(all) > 0 && !began {
		status.setEnding(reason, "the request is being released: pods are evicted from its virtual node before it is removed")
	}
	status.setDrained(all)
	status.setLeaving(all)
	return again, len(all), nil
}

// giveBack releases the reservation at the broker, unless the broker has already confirmed the
// release. It returns the broker's instruction about the ended placement, nil if there is none, and
// the delay before the next try. The release also closes an idempotency key that the broker does
// not know yet, so that a call with this key that arrives later is refused.
func (r *Reconciler) giveBack(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) (*v1.Instruction, time.Duration) {
	if isGivenBack(rr) {
		return nil, never
	}
	if !rr.Status.Asked {
		status.setAbsent(absentGivenBack, "the broker was never asked for capacity")
		return nil, never
	}
	if now := r.options.Clock.Now(); status.isReleasing() && r.retries.IsInBackOffSinceUpdate(string(rr.UID), now) {
		return nil, r.retries.Get(string(rr.UID))
	}
	ended, no, err := r.releaseKey(ctx, rr)
	if err != nil {
		status.setAbsent(absentUnconfirmed, "the broker has not confirmed the release yet; meanwhile the virtual node is removed, and the request stays until the broker answers: "+err.Error())
		return nil, r.backOff(rr, no)
	}
	status.setAbsent(absentGivenBack, "the broker has released the reservation; the virtual node is being removed")
	return ended, never
}

// releaseKey makes the broker release the reservation with the request's idempotency key and close
// the key. It records what the reservation cost, and returns the broker's instruction about the
// ended placement, nil if there is none. If the call fails, it returns an error and the broker's
// refusal, which is nil if the broker did not answer.
func (r *Reconciler) releaseKey(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (ended *v1.Instruction, no *fault.Error, err error) {
	answer, err := r.broker.ReleaseReservation(ctx, rr.IdempotencyKey(), r.options.reported(releaserOf(rr)))
	no, considered := errors.AsType[*fault.Error](err)
	if err != nil && (!considered || no.Reason != fault.NotFound && no.Reason != fault.Released) {
		return nil, no, err
	}
	failpoint.Hit(failpoint.RequestGivenBack)
	if err == nil && answer != nil {
		editor{rr: rr}.setCost(answer.Cost)
		ended = &answer.Instruction
	}
	r.retries.Reset(string(rr.UID))
	return ended, nil, nil
}

// releaserOf returns the user who deleted the request or, if it was not deleted, who edited it last.
func releaserOf(rr *agentv1alpha1.ResourceRequest) string {
	if rr.DeletionTimestamp != nil {
		return actor.Deleter(rr)
	}
	return actor.Author(rr)
}

// isGivenBack reports whether the broker has confirmed that it holds nothing for the request.
func isGivenBack(rr *agentv1alpha1.ResourceRequest) bool {
	c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	return rr.Status.Phase == agentv1alpha1.RequestReleasing && c != nil && c.Reason == agentv1alpha1.ReasonReleased
}

// releaseInstructions releases the request's instructions, and returns those that still exist.
// ended is the broker's instruction about the ended placement, and may be nil. Its receipt is kept
// in the instruction of that placement.
func (r *Reconciler) releaseInstructions(ctx context.Context, rr *agentv1alpha1.ResourceRequest, ended *v1.Instruction) ([]agentv1alpha1.ReservationInstruction, error) {
	all, err := r.listInstructions(ctx, rr)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Spec.Release {
			continue
		}
		var err error
		if ended != nil && all[i].Name == brokerv1alpha1.PlacementName(ended.Reservation, ended.Placement) {
			err = inbox.EndConsumer(ctx, r.client, &all[i], ended, r.options.Receipts, r.options.Clock.Now())
		} else {
			err = inbox.WithdrawConsumer(ctx, r.client, &all[i], "")
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	if err := patch.RemoveFinalizer(ctx, r.client, rr, agentv1alpha1.ReleaseFinalizer); err != nil {
		return fmt.Errorf("remove finalizer of resource request %q: %w", rr.Name, err)
	}
	failpoint.Hit(failpoint.RequestLetGo)
	r.recordReleased(ctx, rr)
	return nil
}

func (e editor) isReleasing() bool { return e.rr.Status.Phase == agentv1alpha1.RequestReleasing }
