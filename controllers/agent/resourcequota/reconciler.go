// Package resourcequota writes into the status of ResourceQuotas how much the ResourceRequests of a
// namespace use, for keys such as resourcerequests.liqo.io/cpu. It only shows the usage: the
// webhook and the controller of ResourceRequests enforce the quotas.
//
// Kubernetes' own quota controller computes other keys of the same status. The two do not overwrite
// each other: that controller keeps unknown keys as long as spec.hard has them, and its write fails
// if the object has changed since it was read.
package resourcequota

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
)

// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests;quotes,verbs=list;watch

type reconciler struct{ client client.Client }

// SetupWithManager adds the controller to a manager. The controller reconciles whole namespaces,
// not single quotas.
func SetupWithManager(mgr ctrl.Manager) error {
	r := &reconciler{client: mgr.GetClient()}
	namespaceOf := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	boundsRequests := predicate.NewPredicateFuncs(func(o client.Object) bool {
		quota, ok := o.(*corev1.ResourceQuota)
		return ok && bounds.CountsRequests(quota)
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("resourcequota").
		Watches(&corev1.ResourceQuota{}, namespaceOf, builder.WithPredicates(boundsRequests)).
		Watches(&agentv1alpha1.ResourceRequest{}, namespaceOf).
		Watches(&agentv1alpha1.Quote{}, namespaceOf).
		Complete(r)
}

// Reconcile updates status.used of each ResourceQuota of a namespace that limits ResourceRequests, only
// for the keys that do.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var quotas corev1.ResourceQuotaList
	if err := r.client.List(ctx, &quotas, client.InNamespace(req.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ResourceQuotas of namespace %q: %w", req.Name, err)
	}
	var requests *agentv1alpha1.ResourceRequestList
	for i := range quotas.Items {
		quota := &quotas.Items[i]
		if !bounds.CountsRequests(quota) {
			continue
		}
		if requests == nil {
			requests = &agentv1alpha1.ResourceRequestList{}
			if err := r.client.List(ctx, requests, client.InNamespace(req.Name)); err != nil {
				return ctrl.Result{}, fmt.Errorf("list ResourceRequests of namespace %q: %w", req.Name, err)
			}
			quotes, err := bounds.ReadQuotes(ctx, r.client, req.Name)
			if err != nil {
				return ctrl.Result{}, err
			}
			requests.Items = bounds.AddQuotes(requests.Items, quotes, "")
		}
		if err := r.writeUsed(ctx, quota, bounds.Used(quota, requests.Items)); err != nil {
			return ctrl.Result{}, fmt.Errorf("write what ResourceRequests use of ResourceQuota %q in namespace %q: %w", quota.Name, quota.Namespace, err)
		}
	}
	return ctrl.Result{}, nil
}

// writeUsed writes the given keys of status.used and leaves all other keys as they are.
func (r *reconciler) writeUsed(ctx context.Context, quota *corev1.ResourceQuota, used corev1.ResourceList) error {
	update := quota.DeepCopy()
	if update.Status.Used == nil {
		update.Status.Used = corev1.ResourceList{}
	}
	changed := false
	for key, amount := range used {
		before, shown := quota.Status.Used[key]
		changed = changed || !shown || before.Cmp(amount) != 0
	}
	if !changed {
		return nil
	}
	maps.Copy(update.Status.Used, used)
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, update, client.MergeFrom(quota)))
}
