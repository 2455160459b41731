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
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// reassertEvery repairs what somebody else wrote that no event told of.
	reassertEvery = 5 * time.Minute
	// busyRetry is when an object is looked at again that found no journal.
	busyRetry = 2 * time.Second
)

// Reconcile brings one ClusterAdvertisement in step with the book. Without a book
// there is nothing to do: all objects come again when a term begins.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.broker.Serving() {
		return ctrl.Result{}, nil
	}
	again := reassertEvery
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.shown, req.NamespacedName)
		err = r.missing(ctx, req.NamespacedName)
		again = 0 // what is made in its place comes by itself
	case err != nil:
		return ctrl.Result{}, err
	case obj.DeletionTimestamp.IsZero():
		err = r.carry(ctx, obj)
	}
	switch fault.ReasonOf(err) {
	case fault.Unavailable, fault.Recovering:
		return ctrl.Result{RequeueAfter: busyRetry}, nil
	}
	return patch.Requeue(again, err)
}

// missing takes back what a deleted manifest offered, or shows what an agent
// advertised and no object shows.
func (r *Reconciler) missing(ctx context.Context, key types.NamespacedName) error {
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
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// carry takes a manifest into the book where no agent speaks for the cluster, then
// shows the book's figures.
func (r *Reconciler) carry(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement) error {
	view, err := r.broker.Cluster(ctx, obj.Spec.ClusterID)
	if err != nil {
		return err
	}
	if view == nil || !view.Agent {
		if view, err = r.offer(ctx, obj); err != nil || view == nil {
			return err
		}
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
		r.tellIgnored(obj, ignored, authors)
	}
	r.shown[client.ObjectKeyFromObject(obj)] = figuresOf(&obj.Spec.Resources)
	return r.writeStatus(ctx, obj, statusOf(view, obj))
}

// offer returns nil, nil for a manifest that was refused; its status says why.
func (r *Reconciler) offer(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement) (*broker.ClusterView, error) {
	offer, err := offerOf(obj)
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
	r.tellAwaited(before, obj)
	r.tellImplausible(before, obj)
	r.tellConduct(before, obj)
	r.tellOverBudget(before, obj)
	return nil
}
