package reservation

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// syncExisting handles an object whose reservation the broker knows. It passes a user's edits of spec to the broker and
// updates the status. If the broker made the object to show an agent's request, syncExisting passes on only
// spec.release, and resets all other edits.
func (r *Reconciler) syncExisting(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation) error {
	if obj.Spec.Release && view.EndReason == "" {
		if err := r.broker.Release(ctx, view.Name, actor.Clean(actor.Author(obj)), "released by spec.release of its Reservation"); err != nil {
			return err
		}
		var err error
		if view, err = r.lookUp(ctx, obj); err != nil || view == nil {
			return err
		}
	}
	if r.shownByBroker(obj) {
		if err := r.reassertSpec(ctx, obj, view); err != nil {
			return err
		}
		return r.projectStatus(ctx, obj, view)
	}
	if view.EndReason != "" {
		return r.projectEnd(ctx, obj, view)
	}
	if !isEdited(obj, view) {
		return r.projectStatus(ctx, obj, view)
	}
	amounts, err := quantity.FromResourceList(requestedResources(obj))
	if err != nil {
		return r.refuseEdit(ctx, obj, view, fault.New(fault.Invalid, "requestedResources: %v", err))
	}
	changed, err := r.broker.ChangeObject(ctx, view.Name, actor.Clean(actor.Author(obj)), obj.Generation, durationOf(obj), amounts)
	switch fault.ReasonOf(err) {
	case "":
		if err != nil {
			return err
		}
		return r.projectStatus(ctx, obj, changed)
	case fault.Invalid, fault.Conflict, fault.Released:
		return r.refuseEdit(ctx, obj, view, err)
	case fault.Awaiting:
		return errors.Join(err, r.showEdit(ctx, obj, view, metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: brokerv1alpha1.ReasonAwaitingProvider, Message: waits + err.Error(),
		}))
	default:
		return err
	}
}

// projectEnd shows the end of a reservation in the status. If the user has edited the spec and the broker has not
// processed the edit, projectEnd requests capacity again once the reservation is over.
func (r *Reconciler) projectEnd(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation) error {
	status := statusOf(view, obj)
	if observed := obj.Status.ObservedGeneration; observed != 0 && !obj.Spec.Release {
		status.ObservedGeneration = observed
	}
	if err := r.writeStatus(ctx, obj, status); err != nil || !asksAgain(obj) {
		return err
	}
	return r.reserveAgain(ctx, obj)
}

// isEdited reports whether a user has changed the spec since the broker last processed it. The first generation is the
// original request.
func isEdited(obj *brokerv1alpha1.Reservation, view *views.Reservation) bool {
	return obj.Generation > max(1, view.Generation)
}

// durationOf returns the requested duration, or 0 if the default applies.
func durationOf(obj *brokerv1alpha1.Reservation) time.Duration {
	if obj.Spec.Duration == nil {
		return 0
	}
	return obj.Spec.Duration.Duration
}

// refuseEdit shows in the status that an edit was refused and why, and that the previous values stay in force.
func (r *Reconciler) refuseEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation, cause error) error {
	return r.showEdit(ctx, obj, view, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonChangeRefused, Message: refused + cause.Error(),
	})
}

func (r *Reconciler) showEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation, c metav1.Condition) error {
	status := statusOf(view, obj)
	c.Type, c.ObservedGeneration = brokerv1alpha1.ConditionChanged, obj.Generation
	setChange(&status, c)
	return r.writeStatus(ctx, obj, status)
}

// refused and waits are the beginnings of messages about an edit that is not in force.
const (
	refused = "the change was refused: "
	waits   = "the change is not in force yet: "
)

// setChange sets the condition Changed. If the edit is not in force, it also adds the reason to the message of the
// status.
func setChange(status *brokerv1alpha1.ReservationStatus, c metav1.Condition) {
	meta.SetStatusCondition(&status.Conditions, c)
	if c.Status != metav1.ConditionTrue && status.Granted != nil {
		status.Message += "; " + c.Message
	}
}

// changeCondition returns the condition Changed: whether the last edit is in force. It returns nil if there was no
// edit. For a request of an agent, view.Generation is a generation of the ResourceRequest rather than of obj.
func changeCondition(view *views.Reservation, obj *brokerv1alpha1.Reservation) *metav1.Condition {
	if view.Generation == 0 || view.Object != nil && view.Generation != obj.Generation {
		return nil
	}
	c := &metav1.Condition{Type: brokerv1alpha1.ConditionChanged}
	switch {
	case view.Pending != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, brokerv1alpha1.ReasonAwaitingProvider
		c.Message = waits + view.Provider + " has not agreed"
	case view.Refusal != nil:
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonChangeRefused
		c.Message = refused + view.Refusal.Reason
	default:
		c.Status, c.Reason = metav1.ConditionTrue, brokerv1alpha1.ReasonChanged
		c.Message = "in force: " + view.Describe()
	}
	return c
}

// reassertSpec resets the spec of an object that shows an agent's request. Such a request can be edited only in its
// ResourceRequest.
func (r *Reconciler) reassertSpec(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation) error {
	want := specOf(view)
	want.Release = obj.Spec.Release
	if equality.Semantic.DeepEqual(obj.Spec, want) {
		return nil
	}
	before := obj.DeepCopy()
	obj.Spec = want
	if err := r.client.Patch(ctx, obj, patch.IfUnchanged(before)); err != nil {
		return err
	}
	r.recorder.Eventf(obj, nil, corev1.EventTypeNormal, brokerv1alpha1.ReasonShownAgain, "Show",
		"spec was reset to the request of the agent of %s; edits must be made on the ResourceRequest there", view.Requester)
	return nil
}
