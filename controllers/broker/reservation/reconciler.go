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
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// reassertEvery is how often each object is reconciled without an event. This undoes changes that someone else made
	// and whose events were lost.
	reassertEvery = time.Minute
	// frontRefresh is how often a Reservation at one of the first places in the queue is reconciled.
	frontRefresh = 10 * time.Second
	// busyRetry is the delay before the next attempt while the journal is unavailable.
	busyRetry = 2 * time.Second
	// fullRetry is the pause before another attempt if the queue is full.
	fullRetry = 30 * time.Second
	// minAge is how old a Reservation must be before it fails because no cluster can hold it. If the manifests in a
	// folder are applied together, the ClusterAdvertisements may come after the Reservation.
	minAge = 3 * time.Second
	// youngRetry is the pause before another attempt for a Reservation younger than minAge.
	youngRetry = 250 * time.Millisecond
)

// skipValidation turns off the search for unknown fields, for which the API server would have to parse the body twice.
const skipValidation = client.FieldValidation(metav1.FieldValidationIgnore)

// errTooYoung means that no cluster can hold a Reservation, and that the Reservation is younger than minAge.
var errTooYoung = errors.New("no cluster can hold the reservation yet")

// Reconcile synchronizes one Reservation with the broker's state. It does nothing while this replica does not lead;
// when it begins to lead, all objects are enqueued again.
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
			again = 0 // no repetition: creating an object of this name causes an event
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
	if q := obj.Status.Queue; q != nil && q.Position <= queueing.FrontPlaces {
		again = frontRefresh
	}
	return patch.Requeue(again, err)
}

// releaseOrphans releases capacity that the broker holds for deleted objects with the name in key. known is the UID
// of the object in the cache. After a change of leader, the new leader may have reserved capacity for an object that
// is still in its cache, although the object was deleted before.
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
		if err := r.broker.Release(ctx, name, "", "its Reservation is gone"); err != nil {
			return err
		}
	}
	return nil
}

// createObject creates the object that shows a reservation of an agent.
func (r *Reconciler) createObject(ctx context.Context, key types.NamespacedName) error {
	if key.Namespace != r.namespace {
		return nil
	}
	view, err := r.broker.Reservation(ctx, key.Name)
	if err != nil || view == nil || view.Object != nil || view.Over() || view.Unclaimed {
		return err // an unclaimed reservation may have a requester that no longer exists
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
			return reconcile.TerminalError(err) // the same object would be refused again
		}
		return err
	}
	failpoint.Hit(failpoint.BrokerShown)
	return r.projectStatus(ctx, obj, view)
}

// releaseDeleted releases the reservation of an object that is being deleted. It removes the finalizer once nothing of
// the reservation is left.
func (r *Reconciler) releaseDeleted(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	view, err := r.lookUp(ctx, obj)
	if err != nil {
		return err
	}
	if view != nil && view.EndReason == "" {
		if err := r.broker.Release(ctx, view.Name, actor.Clean(actor.Deleter(obj)), "its Reservation was deleted"); err != nil {
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
		// Another replica may have become the leader and reserved capacity for this object. In that case Confirm
		// returns an error.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
	}
	return r.removeFinalizer(ctx, obj)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	return patch.RemoveFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer)
}

// syncObject asks the broker to reserve capacity for a new Reservation, or again for one that was edited after its end.
// It calls syncExisting for a Reservation that the broker knows. If the object shows an agent's reservation that the
// broker has forgotten, syncObject deletes the object.
func (r *Reconciler) syncObject(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	if added, err := patch.AddFinalizer(ctx, r.client, obj, brokerv1alpha1.ReservationFinalizer); added || err != nil {
		return err
	}
	view, err := r.lookUp(ctx, obj)
	if err != nil {
		return err
	}
	switch {
	case asksAgain(obj) && (view == nil || view.Over()) && !r.shownByBroker(obj):
		return r.reserveAgain(ctx, obj)
	case view != nil:
		return r.syncExisting(ctx, obj, view)
	case r.shownByBroker(obj):
		// The reservation ended long ago, and the broker has forgotten it.
		if err := r.broker.Confirm(ctx); err != nil {
			return err
		}
		if err := r.removeFinalizer(ctx, obj); err != nil {
			return err
		}
		return client.IgnoreNotFound(r.client.Delete(ctx, obj))
	case isTerminal(obj):
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
		status := refusalOf(full, obj)
		status.Phase, status.Candidates = brokerv1alpha1.ReservationPending, nil // the controller tries again
		return errors.Join(err, r.writeStatus(ctx, obj, status))
	}
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerObjectReserved)
	return r.projectStatus(ctx, obj, view)
}

func (r *Reconciler) lookUp(ctx context.Context, obj *brokerv1alpha1.Reservation) (*views.Reservation, error) {
	if r.shownByBroker(obj) {
		return r.broker.Reservation(ctx, obj.Name)
	}
	return r.broker.ObjectReservation(ctx, obj.Spec.RequesterID, obj.AttemptKey())
}

// projectStatus shows in the status what the broker knows about the reservation.
func (r *Reconciler) projectStatus(ctx context.Context, obj *brokerv1alpha1.Reservation, view *views.Reservation) error {
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// writeRefusal shows in the status that a Reservation failed before it was granted any capacity, and why.
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
	// No other client writes this status, so it can be replaced, which costs the API server less than a merge.
	patch, err := json.Marshal([]statusPatch{{Op: "add", Path: "/status", Value: &status}})
	if err != nil {
		return fmt.Errorf("encoding the status of Reservation %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	failpoint.Hit(failpoint.BrokerStatusDue)
	// The object is a PartialObjectMetadata, so that the API server does not send the status back.
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

// statusPatch is an operation of a JSON patch (RFC 6902). The operation "add" also replaces an existing value.
type statusPatch struct {
	Op    string                            `json:"op"`
	Path  string                            `json:"path"`
	Value *brokerv1alpha1.ReservationStatus `json:"value"`
}

// shownByBroker reports whether the broker created the object to show a reservation of an agent. It ignores the label
// outside the broker's namespace: there, anyone who may create Reservations could set it to take over another cluster's
// reservation by its name.
func (r *Reconciler) shownByBroker(obj *brokerv1alpha1.Reservation) bool {
	return obj.Namespace == r.namespace && obj.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker
}

// asksAgain reports whether a Reservation that failed or was released has been edited since. Such an edit requests
// capacity again, unless it sets spec.release.
func asksAgain(obj *brokerv1alpha1.Reservation) bool {
	return isTerminal(obj) && !obj.Spec.Release && obj.Generation != obj.Status.ObservedGeneration
}

// reserveAgain requests capacity for an edited Reservation that is over. If the Reservation was granted before, the
// new attempt gets another key. The number of the attempt is written to the status first, so that a repetition uses
// the same key.
func (r *Reconciler) reserveAgain(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	if obj.Status.ReservationName == "" {
		return r.reserveCapacity(ctx, obj)
	}
	status := brokerv1alpha1.ReservationStatus{
		Phase: brokerv1alpha1.ReservationPending, Attempt: obj.Status.Attempt + 1, ObservedGeneration: obj.Generation,
		Message: "the Reservation was edited; capacity is requested again",
	}
	setUnreserved(&status, brokerv1alpha1.ReasonPending)
	if err := r.writeStatus(ctx, obj, status); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerObjectAttempt)
	return r.reserveCapacity(ctx, obj)
}

// observeEdit records in the status that the controller has seen an edit of a Reservation that is over. The edit has
// no effect.
func (r *Reconciler) observeEdit(ctx context.Context, obj *brokerv1alpha1.Reservation) error {
	status := *obj.Status.DeepCopy()
	status.ObservedGeneration = obj.Generation
	return r.writeStatus(ctx, obj, status)
}

func isTerminal(obj *brokerv1alpha1.Reservation) bool {
	phase := obj.Status.Phase
	return phase == brokerv1alpha1.ReservationFailed || phase == brokerv1alpha1.ReservationReleased
}
