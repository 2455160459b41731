package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// afterConflict is the pause before the next reconcile if the cached request was stale.
const afterConflict = 100 * time.Millisecond

// maxRequestedBy is the longest status.requestedBy that the schema of ResourceRequest allows.
const maxRequestedBy = 512

// never means that only an event triggers the next reconcile.
const never time.Duration = 0

// Reconcile takes the next step for one request.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	rr := &agentv1alpha1.ResourceRequest{}
	if err := r.client.Get(ctx, req.NamespacedName, rr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	again, err := r.takeStep(ctx, rr)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		// Another client changed or deleted the request meanwhile. The next reconcile reads the new
		// state.
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
	if err := r.beginRequest(ctx, rr); err != nil || !rr.Status.Asked {
		return never, err // the request has failed, or it waits for its Quote, whose next change is an event
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

// beginRequest prepares a request before the broker learns of it. It adds the finalizer, without
// which a deleted request would leave its reservation behind, checks the bounds of the namespace,
// and records in status.asked that the broker is about to be asked. Its writes fail if the request
// was deleted meanwhile.
func (r *Reconciler) beginRequest(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	if _, err := patch.AddFinalizer(ctx, r.client, rr, agentv1alpha1.ReleaseFinalizer); err != nil {
		return fmt.Errorf("add finalizer to resource request %q: %w", rr.Name, err)
	}
	if rr.Status.Asked {
		return nil
	}
	quoteName, ready, err := r.resolveQuote(ctx, rr)
	if err != nil || !ready {
		return err
	}
	return r.checkBounds(ctx, rr, quoteName)
}

// recordAsked sets status.asked before the broker is asked. An agent that restarts during the call
// then knows that there may be a reservation to release. quoteName is the broker's name of the
// quote that the request takes over, "" for none. recordAsked also records quoteName, because a
// repeated call must name the same quote.
func (r *Reconciler) recordAsked(ctx context.Context, rr *agentv1alpha1.ResourceRequest, quoteName string) error {
	before := rr.DeepCopy()
	rr.Status.Asked, rr.Status.QuoteName = true, quoteName
	rr.Status.Phase = agentv1alpha1.RequestPending
	if err := r.client.Status().Patch(ctx, rr, patch.IfUnchanged(before)); err != nil {
		return fmt.Errorf("record that the broker is asked for resource request %q: %w", rr.Name, err)
	}
	logProgress(ctx, rr, "request asked", agentv1alpha1.ReasonPending, "the broker is asked for capacity")
	failpoint.Hit(failpoint.RequestNoted)
	return nil
}

// advanceRequest asks the broker if that is due, and describes the outcome in rr.Status, which the
// caller must save. It returns the delay after which to reconcile again even without an event.
func (r *Reconciler) advanceRequest(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (time.Duration, error) {
	access, err := namespaces.Divide(ctx, r.client, rr)
	if err != nil {
		return never, err
	}
	all, err := r.listInstructions(ctx, rr)
	if err != nil {
		return never, err
	}
	status := r.editStatus(rr)
	if current := currentOf(all); current != nil && isStanding(current) && status.hasMoved(current) {
		r.dropAnswer(rr) // ask the broker again: its answer explains the move
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
	var next time.Duration
	status.obstacle, next = r.findObstacle(ctx, rr, all)
	again = patch.Soonest(again, next)
	status.mirrorInstructions(all, access)
	if err := r.showNode(ctx, rr); err != nil {
		return never, err
	}
	return again, r.updateNamespaces(ctx, rr, all, access.Open)
}

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

// withInstruction returns the list with inst in place of its cached version, which is older.
func withInstruction(all []agentv1alpha1.ReservationInstruction, inst *agentv1alpha1.ReservationInstruction) []agentv1alpha1.ReservationInstruction {
	all = slices.DeleteFunc(all, func(i agentv1alpha1.ReservationInstruction) bool { return i.Name == inst.Name })
	return append(all, *inst)
}

// askBroker sends the request with its idempotency key; the broker answers a repeated request with
// its current state. It returns the answer, or nil if the answer contains no placement, and the
// delay before asking again.
func (r *Reconciler) askBroker(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) (*v1.Reservation, time.Duration) {
	body := wire.ReservationRequest(rr, r.options.ClusterID)
	body.Reservation, body.Actor = rr.Status.ReservationName, r.options.reported(actor.Author(rr))
	if rr.Status.ReservationName == "" {
		body.Quote = rr.Status.QuoteName
	}
	answer, err := r.broker.RequestReservation(ctx, rr.IdempotencyKey(), body)
	if fault.ReasonOf(err) == fault.KeyReused && rr.Status.ReservationName != "" {
		return r.requestChange(ctx, rr, status)
	}
	if err != nil {
		return nil, r.handleError(rr, err, status)
	}
	failpoint.Hit(failpoint.RequestAnswered)
	return r.showAnswer(rr, answer, status)
}

// showAnswer returns the answer, or nil if it contains no placement, and the delay before asking again.
func (r *Reconciler) showAnswer(rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation, status editor) (*v1.Reservation, time.Duration) {
	r.retries.Reset(string(rr.UID))
	again := r.recordRenewal(rr, answer)
	rr.Status.RequestedBy = message.Clip(answer.RequestedBy, maxRequestedBy)
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

// writeInstruction writes the placement in the answer, and returns the updated list of the request's instructions.
func (r *Reconciler) writeInstruction(
	ctx context.Context, rr *agentv1alpha1.ResourceRequest, answer *v1.Reservation,
	all []agentv1alpha1.ReservationInstruction, open []string, status editor,
) ([]agentv1alpha1.ReservationInstruction, error) {
	if answer == nil {
		return all, nil
	}
	writer := inbox.Writer{Client: r.client, Namespace: r.options.InstructionNamespace, Receipts: r.options.Receipts}
	inst, err := writer.WriteConsumer(ctx, &answer.Instruction, inbox.RequestOf(rr, open), r.options.Clock.Now())
	if errors.Is(err, inbox.ErrUnusable) {
		status.setAbsent(absentFailed(agentv1alpha1.ReasonInvalid), "the broker's answer cannot be used: "+err.Error())
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

func hasEnded(a *v1.Reservation) bool {
	granted := a.Instruction.Reservation != ""
	return a.Phase == v1.ReservationPhaseReleasing || a.Phase == v1.ReservationPhaseReleased ||
		a.Phase == v1.ReservationPhaseFailed && granted
}

// handleError describes a failed call to the broker in the status. It returns the delay before
// asking again. This is a short one after a temporary error, and also if the broker refuses all
// calls of this cluster while it may hold a reservation. After any other refusal, it is the
// constant never.
func (r *Reconciler) handleError(rr *agentv1alpha1.ResourceRequest, err error, status editor) time.Duration {
	no, considered := errors.AsType[*fault.Error](err)
	if !considered || no.Temporary() {
		if considered && no.Reason == fault.QueueFull {
			status.setAbsent(absentQueueFull, "the broker's queue is full; the request is repeated until it is queued: "+no.Detail)
		} else {
			status.setUnreachable(err)
		}
		return r.backOff(rr, no)
	}
	if rr.Status.ReservationName != "" && no.OfCaller() {
		// The cluster is denied or has no valid certificate, which says nothing about the reservation.
		status.setUnsure(agentv1alpha1.ReasonRefused, "the broker refuses this cluster", no)
		return r.backOff(rr, no)
	}
	r.retries.Reset(string(rr.UID))
	if losesQuote(rr, no) {
		status.setAbsent(absentQuoteEnded, fmt.Sprintf("quote %q cannot be taken over: %s", rr.Spec.Quote, no.Detail))
		return never
	}
	held := rr.Status.ReservationName != "" && rr.Status.Phase != agentv1alpha1.RequestQueued
	if held || no.Reason == fault.Released {
		status.setLost(no.Detail)
	} else {
		status.setRefused(no)
	}
	return never
}

// backOff returns the pause before the next call after an error. The pause grows with each error
// and has jitter. If the broker asks for a longer pause, backOff returns that pause, but at most
// lastRetry.
func (r *Reconciler) backOff(rr *agentv1alpha1.ResourceRequest, no *fault.Error) time.Duration {
	r.retries.Next(string(rr.UID), r.options.Clock.Now())
	wait := r.retries.Get(string(rr.UID))
	if no != nil {
		wait = max(wait, min(no.RetryAfter, lastRetry))
	}
	return wait
}

// updateNamespaces writes the namespaces that the request may offload now into its instructions
// that have not ended. If the request is being released, it releases these instructions instead.
func (r *Reconciler) updateNamespaces(ctx context.Context, rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction, open []string) error {
	for i := range all {
		inst := &all[i]
		if !isStanding(inst) {
			continue
		}
		if rr.Status.Phase == agentv1alpha1.RequestReleasing {
			if err := inbox.WithdrawConsumer(ctx, r.client, inst, ""); err != nil {
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

// releaseOutdated releases the instructions of placements that the broker has ended, and of a
// reservation that the broker lost and replaced by a new one. The caller must pass an answer that
// has just arrived, because the cached status of the request may be older than an instruction.
func (r *Reconciler) releaseOutdated(ctx context.Context, all []agentv1alpha1.ReservationInstruction, answer *v1.Reservation) error {
	for i := range all {
		inst := &all[i]
		p := placementOf(answer, inst.Spec.Placement)
		if !isStanding(inst) || inst.Spec.ReservationName == answer.Name && p.State != v1.PlacementStateWithdrawing && p.State != v1.PlacementStateGone {
			continue
		}
		if err := inbox.WithdrawConsumer(ctx, r.client, inst, message.Clip(p.Reason, maxReason)); err != nil {
			return err
		}
	}
	return nil
}

// placementOf returns the placement with a number, the zero value if the answer does not have it.
func placementOf(answer *v1.Reservation, number int32) v1.Placement {
	for _, p := range answer.Placements {
		if p.Number == number {
			return p
		}
	}
	return v1.Placement{}
}

// maxReason is the longest reason for a placement's end that the schema of ReservationInstruction
// allows.
const maxReason = 256

func isStanding(inst *agentv1alpha1.ReservationInstruction) bool {
	return !inst.Ended()
}

func (r *Reconciler) saveStatus(ctx context.Context, rr, before *agentv1alpha1.ResourceRequest) error {
	editor{rr: rr}.setSummary()
	if written, err := patch.Status(ctx, r.client, rr, before); !written {
		return err
	}
	r.recordTransitions(ctx, rr, before)
	return nil
}
