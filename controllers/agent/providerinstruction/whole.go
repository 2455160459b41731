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
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// whole is a reconciler for state that all placements share, such as the rights of peers. All
// events result in the same reconcile request, so several events during one run cause only one more
// run.
type whole struct {
	keep func(context.Context) error
	// again is the pause after which a pass runs even without an event; 0 means never.
	again time.Duration
}

// Reconcile runs one pass. It ignores the request.
func (w whole) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return patch.Requeue(w.again, w.keep(ctx))
}

// wholeController returns a builder for a controller whose reconciler has the type whole. The
// controller runs after every change of a ProviderInstruction.
func wholeController(mgr manager.Manager, name string) *builder.Builder {
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: instruction.Retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, wakesWhole[client.Object]())
}

func wakesWhole[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return []reconcile.Request{{}} })
}
