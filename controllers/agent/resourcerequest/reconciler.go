package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// afterConflict is the pause before a retry when the cache was stale.
const afterConflict = 100 * time.Millisecond

// never means that only an event triggers the next reconcile.
const never time.Duration = 0

// Reconcile advances one request by one step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	rr := &agentv1alpha1.ResourceRequest{}
	if err := r.client.Get(ctx, req.NamespacedName, rr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	again, err := r.takeStep(ctx, rr)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		// Another writer was first, or the request is gone: the next reconcile shows which.
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *Reconciler) takeStep(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	if rr.DeletionTimestamp != nil {
		return r.releaseDeleted(ctx, rr)
	}
	if isOver(rr.Status.Phase) {
		return r.continueOver(ctx, rr)
	}
	if rr.Spec.Release {
		return r.releaseEnded(ctx, rr)
	}
	if err := r.beginRequest(ctx, rr); err != nil || isOver(rr.Status.Phase) {
		return never, err
	}
	before := rr.DeepCopy()
	again, err := r.advanceRequest(ctx, rr)
	if err != nil {
		return never, err
	}
	if err := r.saveStatus(ctx, rr, before); err != nil {
		return never, err
	}
	r.markShown(rr)
	return again, r.refreshPlaces(ctx, rr, before)
}

// isOver reports whether an attempt of a request has ended and nothing of it is left.
func isOver(p agentv1alpha1.ResourceRequestPhase) bool {
	return p == agentv1alpha1.RequestFailed || p == agentv1alpha1.RequestReleased
}

// beginRequest prepares a request before the broker sees it. It checks the bounds, adds the finalizer
// so that deletion gives the reservation back, and records that the broker is asked, so that a
// restarted agent knows. Its writes fail if the request was deleted meanwhile.
func (r *Reconciler) beginRequest(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	if _, err := patch.AddFinalizer(ctx, r.client, rr, agentv1alpha1.ReleaseFinalizer); err != nil {
		return fmt.Errorf("add finalizer to resource request %q: %w", rr.Name, err)
	}
	if rr.Status.Asked {
		return nil
	}
	return r.checkBounds(ctx, rr)
}

// recordAsked records in the status that the broker is about to be asked, so that a restarted
// agent gives back whatever the call reserved.
func (r *Reconciler) recordAsked(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	before := rr.DeepCopy()
	rr.Status.Asked = true
	rr.Status.Phase = agentv1alpha1.RequestPending
	if err := r.client.Status().Patch(ctx, rr, patch.IfUnchanged(before)); err != nil {
		return fmt.Errorf("record that the broker is asked for resource request %q: %w", rr.Name, err)
	}
	logProgress(ctx, rr, "request asked", agentv1alpha1.ReasonPending, "the broker is asked for capacity")
	failpoint.Hit(failpoint.RequestNoted)
	return nil
}

// advanceRequest asks the broker if necessary, and shows the outcome. It changes rr.Status in memory
// only.
func (r *Reconciler) advanceRequest(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	access, err := inbox.Namespaces(ctx, r.client, rr)
	if err != nil {
		return never, err
	}
	all, err := r.listInstructions(ctx, rr)
	if err != nil {
		return never, err
	}
	status := r.editStatus(rr)
	if current := currentOf(all); current != nil && isStanding(current) && status.hasMoved(current) {
		r.dropAnswer(rr) // the next answer explains the move
	}
	again, ask := r.untilAsking(rr, all)
	if !ask && !r.isAnswered(rr) {
		status.leaveEditUnobserved()
	}
	if ask {
		answer, next := r.askBroker(ctx, rr, status)
		again = next
		if all, err = r.writeInstruction(ctx, rr, answer, all, access.Open, status); err != nil {
			return never, err
		}
	}
	status.mirrorInstructions(all, access)
	if err := r.showNode(ctx, rr); err != nil {
		return never, err
	}
	return again, r.updateNamespaces(ctx, rr, all, access.Open)
}

// listInstructions lists the ReservationInstructions of the request.
func (r *Reconciler) listInstructions(ctx context.Context, rr *agentv1alpha1.ResourceRequest) ([]agentv1alpha1.ReservationInstruction, error) {
	var list agentv1alpha1.ReservationInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.options.InstructionNamespace)); err != nil {
		return nil, fmt.Errorf("list reservation instructions: %w", err)
	}
	ours := slices.DeleteFunc(list.Items, func(i agentv1alpha1.ReservationInstruction) bool {
		return i.Spec.RequestRef == nil || i.Spec.RequestRef.UID != string(rr.UID)
	})
	return ours, nil
}

// withInstruction replaces the cached version of an instruction by the version just written.
func withInstruction(all []agentv1alpha1.ReservationInstruction, inst *agentv1alpha1.ReservationInstruction) []agentv1alpha1.ReservationInstruction {
	all = slices.DeleteFunc(all, func(i agentv1alpha1.ReservationInstruction) bool { return i.Name == inst.Name })
	return append(all, *inst)
}

// askBroker sends the request under its idempotency key; the broker answers a repetition with the
// current state. It returns nil if there is nothing to carry out, and when to ask again.
func (r *Reconciler) askBroker(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) (*v1.Reservation, time.Duration) {
	calling, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	body := wire.ReservationRequest(rr, r.options.ClusterID)
	body.Reservation = rr.Status.ReservationName
	answer, err := r.broker.RequestReservation(calling, rr.IdempotencyKey(), body)
	if fault.ReasonOf(err) == fault.KeyReused && rr.Status.ReservationName != "" {
		return r.requestChange(calling, rr, status)
	}
	if err != nil {
		return nil, r.handleError(rr, err, status)
	}
	failpoint.Hit(failpoint.RequestAnswered)
	return r.showAnswer(rr, answer, status)
}

// showAnswer shows the broker's answer. It returns the answer if there is something to carry out.
func (r *Reconciler) showAnswer(rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation, status editor) (*v1.Reservation, time.Duration) {
	r.retries.Reset(string(rr.UID))
	again := r.recordRenewal(rr, answer)
	status.setAgreed(answer.Change)
	switch {
	case hasEnded(answer):
		status.setEnded(answer)
		return nil, never
	case answer.Instruction.Reservation == "":
		status.setWaiting(answer)
		return nil, again
	}
	return answer, again
}

// writeInstruction carries out an answer and returns the resulting instructions.
func (r *Reconciler) writeInstruction(
	ctx context.Context, rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation,
	all []agentv1alpha1.ReservationInstruction, open []string, status editor,
) ([]agentv1alpha1.ReservationInstruction, error) {
	if answer == nil {
		return all, nil
	}
	inst, err := inbox.WriteConsumer(ctx, r.client, r.options.InstructionNamespace, &answer.Instruction,
		inbox.RequestOf(rr, open), r.options.Clock.Now())
	if errors.Is(err, inbox.ErrUnusable) {
		status.setFailed(agentv1alpha1.ReasonInvalid, "the broker's answer cannot be used: "+err.Error()+"\n"+retryAdvice)
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.RequestInstructed)
	status.setReserved(answer)
	all = withInstruction(all, inst)
	return all, r.releaseOutdated(ctx, all, answer)
}

// hasEnded reports whether a reservation has ended for good.
func hasEnded(a *v1.Reservation) bool {
	granted := a.Instruction.Reservation != ""
	return a.Phase == v1.ReservationPhaseReleasing || a.Phase == v1.ReservationPhaseReleased ||
		a.Phase == v1.ReservationPhaseFailed && granted
}

// handleError handles an error from the broker: no answer, or a refusal.
func (r *Reconciler) handleError(rr *agentv1alpha1.ResourceRequest, err error, status editor) time.Duration {
	no, considered := errors.AsType[*fault.Error](err)
	if !considered || no.Temporary() {
		if considered && no.Reason == fault.QueueFull {
			status.queueFull(no)
		} else {
			status.setUnreachable(err)
		}
		return r.backOff(rr, no)
	}
	if rr.Status.ReservationName != "" && no.OfCaller() {
		status.setRejected(no)
		return r.backOff(rr, no)
	}
	r.retries.Reset(string(rr.UID))
	held := rr.Status.ReservationName != "" && rr.Status.Phase != agentv1alpha1.RequestQueued
	if held || no.Reason == fault.Released {
		status.setLost(no.Detail)
	} else {
		status.setRefused(no)
	}
	return never
}

// backOff returns when to retry, with jitter, or later if the broker asks for that.
func (r *Reconciler) backOff(rr *agentv1alpha1.ResourceRequest, no *fault.Error) time.Duration {
	r.retries.Next(string(rr.UID), r.options.Clock.Now())
	wait := r.retries.Get(string(rr.UID))
	if no != nil {
		wait = max(wait, min(no.RetryAfter, lastRetry))
	}
	return wait
}

// updateNamespaces updates the namespaces of standing instructions to those the request may use now. It
// releases the instructions of a request that is being released.
func (r *Reconciler) updateNamespaces(ctx context.Context, rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction, open []string) error {
	for i := range all {
		inst := &all[i]
		if !isStanding(inst) {
			continue
		}
		if rr.Status.Phase == agentv1alpha1.RequestReleasing {
			if err := inbox.ReleaseConsumer(ctx, r.client, inst); err != nil {
				return err
			}
			continue
		}
		if slices.Equal(inst.Spec.Namespaces, open) {
			continue
		}
		before := inst.DeepCopy()
		inst.Spec.Namespaces = open
		if err := r.client.Patch(ctx, inst, patch.IfUnchanged(before)); err != nil {
			return fmt.Errorf("write namespaces of reservation instruction %q: %w", inst.Name, err)
		}
	}
	return nil
}

// releaseOutdated releases instructions that the broker has ended: withdrawn placements, and
// reservations that the broker lost and granted again. It requires a fresh answer, because a
// cached status may be older than the instruction.
func (r *Reconciler) releaseOutdated(ctx context.Context, all []agentv1alpha1.ReservationInstruction, answer *v1.Reservation) error {
	for i := range all {
		inst := &all[i]
		if !isStanding(inst) || inst.Spec.ReservationName == answer.Name && !isWithdrawn(answer, inst.Spec.Placement) {
			continue
		}
		if err := inbox.ReleaseConsumer(ctx, r.client, inst); err != nil {
			return err
		}
	}
	return nil
}

func isWithdrawn(answer *v1.Reservation, placement int32) bool {
	return slices.ContainsFunc(answer.Placements, func(p v1.Placement) bool {
		return p.Number == placement && (p.State == v1.PlacementStateWithdrawing || p.State == v1.PlacementStateGone)
	})
}

// isStanding reports whether an instruction is in force, that is, has not ended.
func isStanding(inst *agentv1alpha1.ReservationInstruction) bool {
	return !inst.Ended()
}

// saveStatus writes the status if it changed and records an event for every transition.
func (r *Reconciler) saveStatus(ctx context.Context, rr, before *agentv1alpha1.ResourceRequest) error {
	editor{rr: rr}.setSummary()
	if equality.Semantic.DeepEqual(rr.Status, before.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, rr, patch.IfUnchanged(before)); err != nil {
		return fmt.Errorf("write status of resource request %q: %w", rr.Name, err)
	}
	r.recordTransitions(ctx, rr, before)
	return nil
}
