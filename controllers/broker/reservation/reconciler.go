package reservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// reassertEvery is the period of the repair of foreign writes that caused no event.
	reassertEvery = time.Minute
	// busyRetry is the delay before the next attempt while the journal is unavailable.
	busyRetry = 2 * time.Second
	// fullRetry is the delay before the next attempt while the queue is full.
	fullRetry = 30 * time.Second
	// minAge is the age below which a Reservation does not fail for lack of a cluster. The manifests of one folder
	// may arrive in any order, and the clusters may come last.
	minAge = 3 * time.Second
	// youngRetry is the delay before the next attempt for a Reservation below minAge.
	youngRetry = 250 * time.Millisecond
)

// skipValidation spares the API server the search for unknown fields, which would parse the body twice.
const skipValidation = client.FieldValidation(metav1.FieldValidationIgnore)

// errTooYoung means that no cluster can hold a Reservation that is still below minAge.
var errTooYoung = errors.New("no cluster can hold the reservation yet")

// Reconcile synchronizes one Reservation with the book. It does nothing on a replica that does not serve: a new term
// enqueues all objects again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.broker.Serving() {
		return ctrl.Result{}, nil
	}
	again := reassertEvery
	obj := &brokerv1alpha1.Reservation{}
	err := client.IgnoreNotFound(r.client.Get(ctx, req.NamespacedName, obj))
	if err == nil {
		err = r.releaseOrphans(ctx, req.NamespacedName, obj.UID)
	}
	switch {
	case err != nil:
	case obj.UID == "":
		err = r.createObject(ctx, req.NamespacedName)
		if len(r.broker.HeldFor(req.Namespace, req.Name)) == 0 {
			again = 0 // an object created in its place is a new event
		}
	case !obj.DeletionTimestamp.IsZero():
		err = r.releaseDeleted(ctx, obj)
	default:
		err = r.syncObject(ctx, obj)
	}
	switch fault.ReasonOf(err) {
	case fault.Unavailable, fault.Recovering, fault.Awaiting:
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	case fault.QueueFull:
		return ctrl.Result{RequeueAfter: fullRetry}, nil
	}
	if errors.Is(err, errTooYoung) {
		return ctrl.Result{RequeueAfter: youngRetry}, nil
	}
	return patch.Requeue(again, err)
}

// releaseOrphans releases capacity that is held for objects of this name that no longer exist. After a takeover the
// cache may lag behind: the broker may have reserved for an object that the previous replica finished. known is the
// UID in the cache.
func (r *Reconciler) releaseOrphans(ctx context.Context, key types.NamespacedName, known types.UID) error {
	held := r.broker.HeldFor(key.Namespace, key.Name)
	maps.DeleteFunc(held, func(_, uid string) bool { return uid == string(known) })
	if len(held) == 0 {
		return nil
	}
	there := &brokerv1alpha1.Reservation{}
	if err := client.IgnoreNotFound(r.live.Get(ctx, key, there)); err != nil {
		return err
	}
	for name, uid := range held {
		if uid == string(there.UID) {
			continue
		}
		if err := r.broker.Release(ctx, name, "its Reservation is gone"); err != nil {
			return err
		}
	}
	return nil
}

// createObject creates the Reservation that shows an agent's request.
func (r *Reconciler) createObject(ctx context.Context, key types.NamespacedName) error {
	if key.Namespace != r.namespace {
		return nil
	}
	view, err := r.broker.Reservation(ctx, key.Name)
	if err != nil || view == nil || view.Object != nil || view.Over() || view.Unclaimed {
		return err // the requester of an unclaimed reservation may not exist
	}
	if problems := validation.IsDNS1123Subdomain(key.Name); len(problems) > 0 {
		return reconcile.TerminalError(fmt.Errorf("reservation %q is not a valid object name: %s", key.Name, problems[0]))
	}
	obj := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:     map[string]string{brokerv1alpha1.ManagedByLabel: brokerv1alpha1.ManagedByBroker},
			Finalizers: []string{brokerv1alpha1.ReservationFinalizer},
		},
		Spec: specOf(view),
	}
	if err := r.client.Create(ctx, obj, skipValidation); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		err = fmt.Errorf("showing reservation %q: %w", key.Name, err)
		if apierrors.IsInvalid(err) {
			return reconcile.TerminalError(err) // the next attempt would be just as invalid
		}
		return err
	}
	failpoint.Hit(failpoint.BrokerShown)
	return r.projectStatus(ctx, obj, view)
}

// releaseDeleted releases the reservation of a deleted object. It removes the finalizer once nothing of the
// reservation is left.
func (r *Reconciler) releaseDeleted(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	view, err := r.lookUp(ctx, obj)
	if err != nil {
		return err
	}
	if view != nil && view.EndReason == "" {
		if err := r.broker.Release(ctx, view.Name, "its Reservation was deleted"); err != nil {
			return err
		}
		failpoint.Hit(failpoint.BrokerObjectReleased)
		view, err = r.lookUp(ctx, obj)
		if err != nil {
			return err
		}
	}
	if view != nil && !view.Over() {
		return r.projectStatus(ctx, obj, view)
	}
	failpoint.Hit(failpoint.BrokerObjectOver)
	if view == nil {
		// This replica may have been replaced, and its successor may know the reservation.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
	}
	return r.removeFinalizer(ctx, obj)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	return patch.RemoveFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer)
}

// syncObject enters a new request into the book, or updates the object of an existing one.
func (r *Reconciler) syncObject(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	if added, err := patch.AddFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer); added || err != nil {
		return err
	}
	view, err := r.lookUp(ctx, obj)
	if err != nil {
		return err
	}
	switch {
	case view != nil:
		return r.syncExisting(ctx, obj, view)
	case r.shownByBroker(obj):
		// The reservation ended so long ago that the book has dropped it.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
		if err := r.removeFinalizer(ctx, obj); err != nil {
			return err
		}
		return client.IgnoreNotFound(r.client.Delete(ctx, obj))
	case isTerminal(obj) && !asksAgain(obj):
		return r.observeEdit(ctx, obj)
	case obj.Spec.Release:
		return r.writeRefusal(ctx, obj, fault.New(fault.Released, "spec.release was set before anything was reserved"))
	}
	return r.reserveCapacity(ctx, obj)
}

func (r *Reconciler) reserveCapacity(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	request, err := specs.ReadRequest(obj)
	if err != nil {
		return r.writeRefusal(ctx, obj, fault.New(fault.Invalid, "%v", err))
	}
	view, err := r.broker.ReserveObject(ctx, request)
	reason := fault.ReasonOf(err)
	if reason == fault.NoCandidate && r.clock.Since(obj.CreationTimestamp.Time).Abs() < minAge {
		return errTooYoung
	}
	switch reason {
	case fault.NoCandidate, fault.Invalid, fault.Released, fault.KeyReused, fault.ClusterDenied, fault.ClusterNotApproved:
		return r.writeRefusal(ctx, obj, err)
	case fault.QueueFull:
		full, _ := errors.AsType[*fault.Error](err)
		return errors.Join(err, r.writeStatus(ctx, obj, queueFullOf(full, obj)))
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerObjectReserved)
	return r.projectStatus(ctx, obj, view)
}

func (r *Reconciler) lookUp(ctx context.Context, obj *brokerv1alpha1.Reservation) (*broker.ReservationView, error) {
	if r.shownByBroker(obj) {
		return r.broker.Reservation(ctx, obj.Name)
	}
	return r.broker.ObjectReservation(ctx, obj.Spec.RequesterID, string(obj.UID))
}

// projectStatus shows the book's reservation in the object's status.
func (r *Reconciler) projectStatus(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// writeRefusal ends a Reservation that was never granted.
func (r *Reconciler) writeRefusal(ctx context.Context, obj *brokerv1alpha1.Reservation, cause error) error {
	return r.writeStatus(ctx, obj, refusalOf(cause, obj))
}

func (r *Reconciler) writeStatus(ctx context.Context, obj *brokerv1alpha1.Reservation, status brokerv1alpha1.ReservationStatus) error {
	status.Message = message.Clip(status.Message, message.MaxStatus)
	for i := range status.Conditions {
		status.Conditions[i].Message = message.Clip(status.Conditions[i].Message, message.MaxStatus)
	}
	if equality.Semantic.DeepEqual(obj.Status, status) {
		return nil
	}
	// Nothing else writes this status. Replacing it is cheaper for the API server than merging it.
	patch, err := json.Marshal([]statusPatch{{Op: "add", Path: "/status", Value: &status}})
	if err != nil {
		return fmt.Errorf("encoding the status of Reservation %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	failpoint.Hit(failpoint.BrokerStatusDue)
	// With PartialObjectMetadata the API server does not send the status back.
	shown := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
	shown.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("Reservation"))
	if err := r.client.Status().Patch(ctx, shown, client.RawPatch(types.JSONPatchType, patch), skipValidation); err != nil {
		return client.IgnoreNotFound(err)
	}
	failpoint.Hit(failpoint.BrokerStatusShown)
	before := obj.Status
	obj.Status = status
	r.recordEvents(before, obj)
	return nil
}

// statusPatch is an operation of a JSON patch (RFC 6902). "add" replaces an existing value.
type statusPatch struct {
	Op    string                            `json:"op"`
	Path  string                            `json:"path"`
	Value *brokerv1alpha1.ReservationStatus `json:"value"`
}

// shownByBroker reports whether an object shows an agent's request. The label counts only in the broker's namespace:
// elsewhere, anyone who may create Reservations could use it to take over another cluster's reservation by its name.
func (r *Reconciler) shownByBroker(obj *brokerv1alpha1.Reservation) bool {
	return obj.Namespace == r.namespace && obj.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker
}

// asksAgain reports whether a Reservation that was refused, and never granted, was edited since.
func asksAgain(obj *brokerv1alpha1.Reservation) bool {
	return obj.Status.Phase == brokerv1alpha1.ReservationFailed && obj.Status.ReservationName == "" && obj.Generation != obj.Status.ObservedGeneration
}

// observeEdit notes an edit of a Reservation that is over, which has no effect.
func (r *Reconciler) observeEdit(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	status := *obj.Status.DeepCopy()
	status.ObservedGeneration = obj.Generation
	return r.writeStatus(ctx, obj, status)
}

func isTerminal(obj *brokerv1alpha1.Reservation) bool {
	phase := obj.Status.Phase
	return phase == brokerv1alpha1.ReservationFailed || phase == brokerv1alpha1.ReservationReleased
}
