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

// keep brings a reservation that is in the book in step with its object: what a user
// has edited is carried into the book, then the book is shown.
func (r *Reconciler) keep(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
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
		if err := r.reassert(ctx, obj, view); err != nil {
			return err
		}
		return r.project(ctx, obj, view)
	}
	if !edited(obj, view) || view.EndReason != "" {
		return r.project(ctx, obj, view)
	}
	amounts, err := quantity.FromResourceList(resourceList(obj))
	if err != nil {
		return r.refuseEdit(ctx, obj, view, fault.New(fault.Invalid, "requestedResources: %v", err))
	}
	changed, err := r.broker.ChangeObject(ctx, view.Name, obj.Generation, durationOf(obj), amounts)
	switch fault.ReasonOf(err) {
	case "":
		if err != nil {
			return err
		}
		return r.project(ctx, obj, changed)
	case fault.Invalid, fault.Conflict, fault.Released:
		return r.refuseEdit(ctx, obj, view, err)
	case fault.Awaiting:
		return errors.Join(err, r.deferEdit(ctx, obj, view, err))
	default:
		return err
	}
}

// edited is whether a user has changed the spec since the book knew it: the first
// generation is what was asked for.
func edited(obj *brokerv1alpha1.Reservation, view *broker.ReservationView) bool {
	return obj.Generation > max(1, view.Generation)
}

// durationOf an object, 0 for the default.
func durationOf(obj *brokerv1alpha1.Reservation) time.Duration {
	if obj.Spec.Duration == nil {
		return 0
	}
	return obj.Spec.Duration.Duration
}

// refuseEdit shows that the book has kept what was agreed before, and why.
func (r *Reconciler) refuseEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, cause error) error {
	return r.showEdit(ctx, obj, view, metav1.Condition{
		Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonChangeRefused, Message: holdsStill + cause.Error(),
	})
}

// deferEdit shows that the edit cannot be carried into the book yet.
func (r *Reconciler) deferEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, cause error) error {
	return r.showEdit(ctx, obj, view, metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: brokerv1alpha1.ReasonAwaitingProvider, Message: holdsStill + cause.Error(),
	})
}

func (r *Reconciler) showEdit(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView, c metav1.Condition) error {
	status := statusOf(view, obj)
	c.Type, c.ObservedGeneration = brokerv1alpha1.ConditionChanged, obj.Generation
	meta.SetStatusCondition(&status.Conditions, c)
	return r.writeStatus(ctx, obj, status)
}

// holdsStill begins what is said of an edit that is not in force.
const holdsStill = "what was agreed before holds: "

// changeOf says whether the last edit is in force, nil where there was none. What is
// edited at an agent goes by the agent's numbers.
func changeOf(view *broker.ReservationView, obj *brokerv1alpha1.Reservation) *metav1.Condition {
	if view.Generation == 0 || view.Object != nil && view.Generation != obj.Generation {
		return nil
	}
	c := &metav1.Condition{Type: brokerv1alpha1.ConditionChanged}
	switch {
	case view.Pending != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, brokerv1alpha1.ReasonAwaitingProvider
		c.Message = holdsStill + view.Provider + " has not agreed yet"
	case view.Refusal != nil:
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonChangeRefused
		c.Message = holdsStill + view.Refusal.Reason
	default:
		c.Status, c.Reason = metav1.ConditionTrue, brokerv1alpha1.ReasonChanged
		c.Message = "in force: " + view.Describe()
	}
	return c
}

// reassert writes the book into the spec of an object that shows what an agent asked
// for: that is changed where it was asked for.
func (r *Reconciler) reassert(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
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
		"spec shows what the agent of %s has asked for; it is changed there", view.Requester)
	return nil
}
