package reservation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
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
	changed, err := r.broker.ChangeObject(ctx, view.Name, obj.Generation, durationOf(obj))
	switch fault.ReasonOf(err) {
	case "":
		if err != nil {
			return err
		}
		return r.project(ctx, obj, changed)
	case fault.Invalid, fault.Conflict, fault.Released:
		return r.refuseEdit(ctx, obj, view, err)
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
	status := statusOf(view, obj)
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: brokerv1alpha1.ConditionChanged, Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonChangeRefused,
		Message: "what was agreed before holds: " + cause.Error(), ObservedGeneration: obj.Generation,
	})
	return r.writeStatus(ctx, obj, status)
}

// changeOf says whether the last edit is in force, nil where there was none.
func changeOf(view *broker.ReservationView, obj *brokerv1alpha1.Reservation) *metav1.Condition {
	if view.Generation == 0 || view.Generation != obj.Generation {
		return nil
	}
	return &metav1.Condition{
		Type: brokerv1alpha1.ConditionChanged, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonChanged,
		Message: fmt.Sprintf("held for %s in all", view.Duration),
	}
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
	if err := r.client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	r.recorder.Eventf(obj, nil, corev1.EventTypeNormal, brokerv1alpha1.ReasonShownAgain, "Show",
		"spec shows what the agent of %s has asked for; it is changed there", view.Requester)
	return nil
}
