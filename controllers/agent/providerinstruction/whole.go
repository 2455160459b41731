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

// whole reconciles something shared by all placements: any change reconciles all of it. All its
// requests are equal, so that changes during one pass cause a single further pass.
type whole struct {
	keep func(context.Context) error
	// again is how often it runs without an event; 0 means never.
	again time.Duration
}

// Reconcile runs one pass.
func (w whole) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(w.again, w.keep(ctx))
}

// wholeController builds a controller that any change of a placement triggers.
func wholeController(mgr manager.Manager, name string) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: newRateLimiter()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, wakesWhole[client.Object]())
}

// wakesWhole maps any event to the controller's one request.
func wakesWhole[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return []reconcile.Request{{}} })
}
