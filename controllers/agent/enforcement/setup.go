// Package enforcement limits consumers to their grants. When the pods of a placement exceed its
// grant, it evicts the newest of them. When pods that were refused earlier would fit again, it
// makes Liqo retry them.
package enforcement

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// firstRetry and lastRetry are the shortest and the longest pause after an error. The pause doubles
// with each error. Both are short because pods may exceed the grant until the retry.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Options of the controller; all are required.
type Options struct {
	// Namespace holds the ProviderInstructions.
	Namespace string
	// Book counts the pods of every placement.
	Book     *enforcement.Book
	Peering  *liqo.Peering
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Reconciler compares the pods of each placement with its grant, and evicts pods that exceed it.
type Reconciler struct {
	client  client.Client
	opts    Options
	evicted *prometheus.CounterVec
	// seen holds what is known of waiting ShadowPods, by placement and UID.
	seen map[string]map[types.UID]seenPod
}

// SetupWithManager adds the controller to a manager. It reconciles a placement whenever its pods or
// its ProviderInstruction change.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	r := newReconciler(mgr.GetClient(), opts)
	if err := metrics.Registry.Register(r.evicted); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("enforcement").
		For(&agentv1alpha1.ProviderInstruction{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		WatchesRawSource(source.Func(r.followBook)).
		Complete(r)
}

func newReconciler(c client.Client, opts Options) *Reconciler {
	return &Reconciler{client: c, opts: opts, seen: map[string]map[types.UID]seenPod{}, evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agent_excess_pods_evicted_total",
		Help: "Pods of a consumer that were evicted because they exceeded the grant.",
	}, []string{"consumer"})}
}

func (r *Reconciler) followBook(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.opts.Book.Subscribe(func(placement string) {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.opts.Namespace, Name: placement}})
	})
	return nil
}
