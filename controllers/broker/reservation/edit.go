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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// syncExisting carries a user's edits of the object into the book, then shows the book in the status.
func (r *Reconciler) syncExisting(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
	if obj.Spec.Release && view.EndReason == "" {
		if err := r.broker.Release(ctx, view.Name, "released by spec.release of its Reservation"); err != nil {
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
	if !isEdited(obj, view) || view.EndReason != "" {
		return r.projectStatus(ctx, obj, view)
	}
	amounts, err := quantity.FromResourceList(requestedResources(obj))
	if err != nil {
		return r.refuseEdit(ctx, obj, view, fault.New(fault.Invalid, "requestedResources: %v", err))
	}
	changed, err := r.broker.ChangeObject(ctx, view.Name, obj.Generation, durationOf(obj), amounts)
	switch fault.ReasonOf(err) {
	case "":
		if err != nil {
			return err
		}
		return r.projectStatus(ctx, obj, changed)
	case fault.Invalid, fault.Conflict, fault.Released:
		return r.refuseEdit(ctx, obj, view, err)
	case fault.Awaiting:
		return errors.Join(err, r.deferEdit(ctx, obj, view, err))
	default:
		return err
	}
}

// isEdited reports whether a user has changed the spec since the book last read it. The first generation is the
// original request.
func isEdited(obj *brokerv1alpha1.Reservation, view *broker.ReservationView) bool {
	return obj.Generation > max(1, view.Generation)
}

// durationOf returns the requested duration, 0 for the default.
func durationOf(obj *brokerv1alpha1.Reservation) time.Duration {
	if obj.Spec.Duration == nil {
		return 0
	}
	return obj.Spec.Duration.Duration
}

// refuseEdit shows that the previous agreement stays, and why.
func (r *Reconciler) refuseEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, cause error) error {
	return r.showEdit(ctx, obj, view, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonChangeRefused, Message: refused + cause.Error(),
	})
}

// deferEdit shows that the edit cannot be carried into the book yet.
func (r *Reconciler) deferEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, cause error) error {
	return r.showEdit(ctx, obj, view, metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: brokerv1alpha1.ReasonAwaitingProvider, Message: waits + cause.Error(),
	})
}

func (r *Reconciler) showEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, c metav1.Condition) error {
	status := statusOf(view, obj)
	c.Type, c.ObservedGeneration = brokerv1alpha1.ConditionChanged, obj.Generation
	setChange(&status, c)
	return r.writeStatus(ctx, obj, status)
}

// refused and waits begin the messages about an edit that is not in force.
const (
	refused = "the change was refused: "
	waits   = "the change is not in force yet: "
)

// setChange shows the outcome of an edit, and adds to the message that it is not in force.
func setChange(status *brokerv1alpha1.ReservationStatus, c metav1.Condition) {
	meta.SetStatusCondition(&status.Conditions, c)
	if c.Status != metav1.ConditionTrue && status.Granted != nil {
		status.Message += "; " + c.Message
	}
}

// changeCondition shows whether the last edit is in force. It returns nil if there was none. For an edit made at an
// agent, view.Generation counts the agent's generations.
func changeCondition(view *broker.ReservationView, obj *brokerv1alpha1.Reservation) *metav1.Condition {
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

// reassertSpec writes the book into the spec of an object that shows an agent's request. Such a request can only be
// edited at the agent.
func (r *Reconciler) reassertSpec(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
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
