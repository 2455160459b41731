package clusteradvertisement

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// reassertEvery is how often each object is reconciled without an event. This undoes changes that someone else made
	// and whose events were lost.
	reassertEvery = 5 * time.Minute
	// busyRetry is the pause before another attempt if the broker cannot write its journal now.
	busyRetry = 2 * time.Second
)

// Reconcile synchronizes one ClusterAdvertisement with the broker's state. It does nothing while this replica does not
// lead; when it begins to lead, all objects are enqueued again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.broker.Serving() {
		return ctrl.Result{}, nil
	}
	again := reassertEvery
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	switch {
	case apierrors.IsNotFound(err):
		err = r.handleMissing(ctx, req.NamespacedName)
		again = 0 // no repetition: creating an object of this name causes an event
	case err != nil:
		return ctrl.Result{}, err
	case obj.DeletionTimestamp.IsZero():
		err = r.syncObject(ctx, obj)
	}
	switch fault.ReasonOf(err) {
	case fault.Unavailable, fault.Recovering:
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	}
	return patch.Requeue(again, err)
}

// handleMissing handles a ClusterAdvertisement that does not exist. If an administrator wrote it, handleMissing
// withdraws its offer. If it belongs to a cluster whose agent advertises, handleMissing creates it.
func (r *Reconciler) handleMissing(ctx context.Context, key types.NamespacedName) error {
	id, uid, err := r.broker.ClusterOfManifest(ctx, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	if id != "" {
		delete(r.shown, key)
		return r.broker.WithdrawManifest(ctx, id, uid)
	}
	view, err := r.broker.Cluster(ctx, key.Name)
	if err != nil {
		return err
	}
	if key.Namespace != r.namespace || view == nil || !view.Agent {
		delete(r.shown, key)
		return nil
	}
	return r.createObject(ctx, key, view)
}

// createObject creates the ClusterAdvertisement of a cluster whose agent advertises.
func (r *Reconciler) createObject(ctx context.Context, key types.NamespacedName, view *broker.ClusterView) error {
	obj := &brokerv1alpha1.ClusterAdvertisement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{brokerv1alpha1.ManagedByLabel: brokerv1alpha1.ManagedByBroker},
		},
		Spec: specOf(view, &brokerv1alpha1.ClusterAdvertisementSpec{}),
	}
	if err := r.client.Create(ctx, obj, fieldOwner); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache does not contain the object yet
		}
		return fmt.Errorf("showing cluster %q: %w", key.Name, err)
	}
	if _, deleted := r.shown[key]; deleted {
		r.recordRecreated(obj)
	}
	r.shown[key] = figuresOf(&obj.Spec.Resources)
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// syncObject gives the broker the offer in the object if the cluster has no agent. Then it writes what the broker knows
// about the cluster into the object.
func (r *Reconciler) syncObject(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement) error {
	view, err := r.broker.Cluster(ctx, obj.Spec.ClusterID)
	if err != nil {
		return err
	}
	if gone, err := r.forgetCluster(ctx, obj, view); gone || err != nil {
		return err
	}
	if view == nil || !view.Agent {
		if view, err = r.acceptManifest(ctx, obj); err != nil || view == nil {
			return err
		}
	}
	if view, err = r.liftPauses(ctx, obj, view); err != nil {
		return err
	}
	spec := specOf(view, &obj.Spec)
	if !equality.Semantic.DeepEqual(spec, obj.Spec) {
		ignored, authors, err := r.ignoredChanges(ctx, obj, figuresOf(&spec.Resources))
		if err != nil {
			return err
		}
		// A patch keeps the notation of the amounts that an administrator wrote, and leaves these
		// fields to their field manager.
		before := obj.DeepCopy()
		obj.Spec = spec
		if err := r.client.Patch(ctx, obj, patch.IfUnchanged(before), fieldOwner); err != nil {
			return err
		}
		failpoint.Hit(failpoint.BrokerFiguresShown)
		r.recordIgnored(obj, ignored, authors)
	}
	r.shown[client.ObjectKeyFromObject(obj)] = figuresOf(&obj.Spec.Resources)
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// acceptManifest gives the broker the offer in a ClusterAdvertisement that an administrator wrote. If the broker
// refuses the offer, acceptManifest writes the reason into the status and returns nil without an error.
func (r *Reconciler) acceptManifest(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement) (*broker.ClusterView, error) {
	offer, err := specs.ReadOffer(obj)
	if err == nil {
		err = r.broker.OfferManifest(ctx, offer)
	}
	switch fault.ReasonOf(err) {
	case fault.Invalid, fault.Conflict:
		return nil, r.writeStatus(ctx, obj, refusalOf(err, obj))
	}
	if err != nil {
		return nil, err
	}
	return r.broker.Cluster(ctx, obj.Spec.ClusterID)
}

func (r *Reconciler) writeStatus(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, status brokerv1alpha1.ClusterAdvertisementStatus) error {
	if equality.Semantic.DeepEqual(obj.Status, status) {
		return nil
	}
	before := obj.DeepCopy()
	obj.Status = status
	if err := r.client.Status().Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.recordAwaitingHoldings(before, obj)
	r.recordFalse(before, obj, brokerv1alpha1.ConditionPlausible, "Doubt")
	r.recordConduct(before, obj)
	r.recordFalse(before, obj, brokerv1alpha1.ConditionWithinBudget, "Limit")
	return nil
}
