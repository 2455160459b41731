package providerinstruction

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// whole is what is kept for all placements at once: whatever moved, all of it is looked
// at. Its requests are all the same, so that what moves meanwhile makes one more look.
type whole struct {
	keep func(context.Context) error
	// again is how often it is looked at though nothing told of anything; 0 is never.
	again time.Duration
}

// Reconcile keeps it.
func (w whole) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(w.again, w.keep(ctx))
}

// wholeController wakes when a placement moves.
func wholeController(mgr manager.Manager, name string) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, wakesWhole[client.Object]())
}

// wakesWhole is for whatever else wakes one.
func wakesWhole[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return []reconcile.Request{{}} })
}
