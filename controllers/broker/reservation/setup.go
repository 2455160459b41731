// Package reservation synchronizes the Reservations of the broker's cluster with the book. Objects that users create
// are entered into the book; every reservation in the book is shown as an object.
package reservation

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=reservations,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=reservations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// workers is the number of concurrent reconciliations. With this many, the API server is the bottleneck.
const workers = 8

// Reconciler reconciles Reservations.
type Reconciler struct {
	client client.Client
	// live reads from the API server, past the cache.
	live      client.Reader
	broker    *broker.Broker
	namespace string
	recorder  events.EventRecorder
	clock     clock.PassiveClock
}

// Setup registers the controller. The objects of requests that came over REST are created in namespace.
func Setup(mgr ctrl.Manager, b *broker.Broker, namespace string, clock clock.PassiveClock) error {
	r := &Reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), broker: b, namespace: namespace, clock: clock,
		recorder: mgr.GetEventRecorder("reservation"),
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("reservation").
		For(&brokerv1alpha1.Reservation{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(source.Func(r.watchBook)).
		Complete(r)
}

// watchBook enqueues the objects of reservations that change in the book. When a term begins it enqueues all objects,
// because edits may have been missed.
func (r *Reconciler) watchBook(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go r.broker.Feed().Terms(ctx, func() {
		var list brokerv1alpha1.ReservationList
		if err := r.client.List(ctx, &list); err != nil {
			return // reading from the cache fails only while the manager stops
		}
		for i := range list.Items {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	})
	go func() {
		for {
			names, err := r.broker.Feed().Reservations(ctx)
			if err != nil {
				return
			}
			for _, name := range names {
				queue.Add(reconcile.Request{NamespacedName: r.objectOf(name)})
			}
		}
	}()
	return nil
}

// objectOf returns the name of the object that shows a reservation.
func (r *Reconciler) objectOf(name string) types.NamespacedName {
	if object := r.broker.ObjectOf(name); object != nil {
		return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	}
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}
