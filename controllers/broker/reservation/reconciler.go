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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// reassertEvery repairs what somebody else wrote into a status that no event told of.
	reassertEvery = time.Minute
	// busyRetry is when an object is looked at again that found no journal.
	busyRetry = 2 * time.Second
	// fullRetry is when one is that found no place in the queue.
	fullRetry = 30 * time.Second
	// youth is for how long a Reservation is not refused for want of a cluster: what is
	// applied together with it, as from one folder, arrives in any order.
	youth = 3 * time.Second
	// youngRetry is when a young one is looked at again.
	youngRetry = 250 * time.Millisecond
)

// unchecked has the API server not look for fields that it would not keep, and read what it
// gets only once.
const unchecked = client.FieldValidation(metav1.FieldValidationIgnore)

// errYoung is that no cluster can hold a Reservation, which may be said too soon.
var errYoung = errors.New("no cluster can hold it yet")

// Reconcile brings one Reservation in step with the book. Without a book there is
// nothing to do: all objects come again when a term begins.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.broker.Serving() {
		return ctrl.Result{}, nil
	}
	again := reassertEvery
	obj := &brokerv1alpha1.Reservation{}
	err := client.IgnoreNotFound(r.client.Get(ctx, req.NamespacedName, obj))
	if err == nil {
		err = r.giveUp(ctx, req.NamespacedName, obj.UID)
	}
	switch {
	case err != nil:
	case obj.UID == "":
		err = r.show(ctx, req.NamespacedName)
		if len(r.broker.HeldFor(req.Namespace, req.Name)) == 0 {
			again = 0 // what is made in its place comes by itself
		}
	case !obj.DeletionTimestamp.IsZero():
		err = r.finish(ctx, obj)
	default:
		err = r.carry(ctx, obj)
	}
	switch fault.ReasonOf(err) {
	case fault.Unavailable, fault.Recovering, fault.Awaiting:
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	case fault.QueueFull:
		return ctrl.Result{RequeueAfter: fullRetry}, nil
	}
	if errors.Is(err, errYoung) {
		return ctrl.Result{RequeueAfter: youngRetry}, nil
	}
	return patch.Requeue(again, err)
}

// giveUp releases what is held for objects of this name that are gone. What this process
// knows of the API may be old when it has just taken over: it may have reserved for an
// object that the replica before it let go. known is the UID of the one in the cache.
func (r *Reconciler) giveUp(ctx context.Context, key types.NamespacedName, known types.UID) error {
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

// show makes the object of a reservation that an agent asked for.
func (r *Reconciler) show(ctx context.Context, key types.NamespacedName) error {
	if key.Namespace != r.namespace {
		return nil
	}
	view, err := r.broker.Reservation(ctx, key.Name)
	if err != nil || view == nil || view.Object != nil || view.Over() || view.Unclaimed {
		return err // what no requester has claimed may be nobody's
	}
	if problems := validation.IsDNS1123Subdomain(key.Name); len(problems) > 0 {
		return reconcile.TerminalError(fmt.Errorf("reservation %q cannot be shown as an object: %s", key.Name, problems[0]))
	}
	obj := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:     map[string]string{brokerv1alpha1.ManagedByLabel: brokerv1alpha1.ManagedByBroker},
			Finalizers: []string{brokerv1alpha1.ReservationFinalizer},
		},
		Spec: specOf(view),
	}
	if err := r.client.Create(ctx, obj, unchecked); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		err = fmt.Errorf("showing reservation %q: %w", key.Name, err)
		if apierrors.IsInvalid(err) {
			return reconcile.TerminalError(err) // it will be no more valid the next time
		}
		return err
	}
	failpoint.Hit(failpoint.BrokerShown)
	return r.project(ctx, obj, view)
}

// finish releases a reservation whose object is deleted, and lets the object go
// once nothing of the reservation is left.
func (r *Reconciler) finish(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
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
		return r.project(ctx, obj, view)
	}
	failpoint.Hit(failpoint.BrokerObjectOver)
	if view == nil {
		// Another replica may know it, and this one not that it was replaced.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
	}
	return patch.RemoveFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer)
}

// carry takes what a user asked for into the book, or shows what became of it.
func (r *Reconciler) carry(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	if added, err := patch.AddFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer); added || err != nil {
		return err
	}
	view, err := r.lookUp(ctx, obj)
	if err != nil {
		return err
	}
	switch {
	case view != nil:
		return r.keep(ctx, obj, view)
	case r.shownByBroker(obj):
		// The book has forgotten it: it was over long ago.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
		if err := patch.RemoveFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer); err != nil {
			return err
		}
		return client.IgnoreNotFound(r.client.Delete(ctx, obj))
	case terminal(obj):
		return nil
	case obj.Spec.Release:
		return r.refuse(ctx, obj, fault.New(fault.Released, "spec.release was set before anything was reserved"))
	}
	return r.reserve(ctx, obj)
}

func (r *Reconciler) reserve(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	request, err := requestOf(obj)
	if err != nil {
		return r.refuse(ctx, obj, fault.New(fault.Invalid, "%v", err))
	}
	view, err := r.broker.ReserveObject(ctx, request)
	reason := fault.ReasonOf(err)
	if reason == fault.NoCandidate && r.clock.Since(obj.CreationTimestamp.Time).Abs() < youth {
		return errYoung
	}
	switch reason {
	case fault.NoCandidate, fault.Invalid, fault.Released, fault.KeyReused, fault.ClusterDenied, fault.ClusterNotApproved:
		return r.refuse(ctx, obj, err)
	case fault.QueueFull:
		full, _ := errors.AsType[*fault.Error](err)
		return errors.Join(err, r.writeStatus(ctx, obj, queueFullOf(full, obj)))
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerObjectReserved)
	return r.project(ctx, obj, view)
}

func requestOf(obj *brokerv1alpha1.Reservation) (broker.Request, error) {
	amounts, err := quantity.FromResourceList(resourceList(obj))
	if err != nil {
		return broker.Request{}, fmt.Errorf("requestedResources: %w", err)
	}
	q := broker.Request{
		Requester: obj.Spec.RequesterID, Tenant: obj.Spec.Tenant, Priority: obj.Spec.Priority,
		Amounts: amounts, Target: obj.Spec.TargetClusterID,
		Object: &ledger.ObjectRef{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
	}
	if q.Terms, err = ReadTerms(&obj.Spec); err != nil {
		return broker.Request{}, err
	}
	if obj.Spec.Duration != nil {
		q.Duration = obj.Spec.Duration.Duration
	}
	q.Queue = obj.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue
	q.Patient = obj.Spec.Healing == brokerv1alpha1.HealingWait
	if obj.Spec.QueueTimeout != nil {
		q.Wait = obj.Spec.QueueTimeout.Duration
	}
	return q, nil
}

func (r *Reconciler) lookUp(ctx context.Context, obj *brokerv1alpha1.Reservation) (*broker.ReservationView, error) {
	if r.shownByBroker(obj) {
		return r.broker.Reservation(ctx, obj.Name)
	}
	return r.broker.ObjectReservation(ctx, obj.Spec.RequesterID, string(obj.UID))
}

// project shows the book's reservation in the object's status.
func (r *Reconciler) project(ctx context.Context, obj *brokerv1alpha1.Reservation, view *broker.ReservationView) error {
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// refuse is for a request that found no place: it is over before it began.
func (r *Reconciler) refuse(ctx context.Context, obj *brokerv1alpha1.Reservation, cause error) error {
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
	// The whole status is ours. To replace it costs the API server less than to merge it.
	patch, err := json.Marshal([]replacement{{Op: "add", Path: "/status", Value: &status}})
	if err != nil {
		return fmt.Errorf("encoding the status of Reservation %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	failpoint.Hit(failpoint.BrokerStatusDue)
	// What was just sent is not wanted back.
	shown := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
	shown.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("Reservation"))
	if err := r.client.Status().Patch(ctx, shown, client.RawPatch(types.JSONPatchType, patch), unchecked); err != nil {
		return client.IgnoreNotFound(err)
	}
	failpoint.Hit(failpoint.BrokerStatusShown)
	before := obj.Status
	obj.Status = status
	r.announce(before, obj)
	return nil
}

// replacement is an operation of a JSON patch (RFC 6902); "add" replaces what is there.
type replacement struct {
	Op    string                            `json:"op"`
	Path  string                            `json:"path"`
	Value *brokerv1alpha1.ReservationStatus `json:"value"`
}

// shownByBroker says whether an object shows what an agent asked for. In another
// namespace than the broker's own the label says nothing: whoever may write there
// could take hold of another's reservation by its name.
func (r *Reconciler) shownByBroker(obj *brokerv1alpha1.Reservation) bool {
	return obj.Namespace == r.namespace && obj.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker
}

func terminal(obj *brokerv1alpha1.Reservation) bool {
	phase := obj.Status.Phase
	return phase == brokerv1alpha1.ReservationFailed || phase == brokerv1alpha1.ReservationReleased
}
