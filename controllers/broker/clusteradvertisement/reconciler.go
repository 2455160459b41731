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
	// reassertEvery is the period of the repair of foreign writes that caused no event.
	reassertEvery = 5 * time.Minute
	// busyRetry is the delay before the next attempt while the journal is unavailable.
	busyRetry = 2 * time.Second
)

// Reconcile synchronizes one ClusterAdvertisement with the book. It does nothing on a replica that does not serve: a
// new term enqueues all objects again.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.broker.Serving() {
		return ctrl.Result{}, nil
	}
	again := reassertEvery
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	switch {
	case apierrors.IsNotFound(err):
		_, deleted := r.shown[req.NamespacedName]
		delete(r.shown, req.NamespacedName)
		err = r.handleMissing(ctx, req.NamespacedName, deleted)
		again = 0 // an object created in its place is a new event
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

// handleMissing withdraws the offer of a deleted manifest, or creates the object of a cluster whose agent advertises.
// deleted tells that the object existed.
func (r *Reconciler) handleMissing(ctx context.Context, key types.NamespacedName, deleted bool) error {
	id, uid, err := r.broker.ClusterOfManifest(ctx, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	if id != "" {
		return r.broker.WithdrawManifest(ctx, id, uid)
	}
	if key.Namespace != r.namespace {
		return nil
	}
	view, err := r.broker.Cluster(ctx, key.Name)
	if err != nil || view == nil || !view.Agent {
		return err
	}
	obj := &brokerv1alpha1.ClusterAdvertisement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{brokerv1alpha1.ManagedByLabel: brokerv1alpha1.ManagedByBroker},
		},
		Spec: specOf(view, &brokerv1alpha1.ClusterAdvertisementSpec{}),
	}
	if err := r.client.Create(ctx, obj, fieldOwner); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("showing cluster %q: %w", key.Name, err)
	}
	if deleted {
		r.recordRecreated(obj)
	}
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// syncObject enters a manifest into the book if the cluster has no agent, then writes the book's figures into the
// object.
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
		obj.Spec = spec
		if err := r.client.Update(ctx, obj, fieldOwner); err != nil {
			return err
		}
		failpoint.Hit(failpoint.BrokerFiguresShown)
		r.recordIgnored(obj, ignored, authors)
	}
	r.shown[client.ObjectKeyFromObject(obj)] = figuresOf(&obj.Spec.Resources)
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// acceptManifest enters the offer of a manifest. It returns nil, nil for a refused one, whose status shows the
// reason.
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
	r.recordImplausible(before, obj)
	r.recordConduct(before, obj)
	r.recordOverBudget(before, obj)
	return nil
}
