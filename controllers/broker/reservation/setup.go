// Package reservation synchronizes the Reservations of the broker's cluster with the broker's state. It asks the
// broker to reserve capacity for the Reservations that users create, and it creates a Reservation for every
// reservation that an agent requested. It shows the state of all reservations in the status of their objects.
package reservation

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/book"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=reservations,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=reservations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// workers is the number of concurrent reconciliations. With this number, the API server is already the bottleneck, so
// more would not help.
const workers = 8

// Reconciler reconciles Reservations.
type Reconciler struct {
	client client.Client
	// live reads from the API server instead of the cache.
	live      client.Reader
	broker    *broker.Broker
	namespace string
	recorder  events.EventRecorder
	clock     clock.PassiveClock
}

// Setup registers the controller. It creates the objects for reservations of agents in namespace.
func Setup(mgr ctrl.Manager, b *broker.Broker, namespace string, clock clock.PassiveClock) error {
	r := &Reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), broker: b, namespace: namespace, clock: clock,
		recorder: mgr.GetEventRecorder(version.Product),
	}
	shows := book.Watch{
		Feed: b.Feed(), Changed: b.Feed().Reservations, ObjectOf: r.objectOf,
		All: &brokerv1alpha1.ReservationList{}, Client: r.client,
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("reservation").
		For(&brokerv1alpha1.Reservation{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(shows.Source()).
		Complete(r)
}

// objectOf returns the name of the Reservation object for a reservation: the one that a user created, or else the one
// that the broker creates.
func (r *Reconciler) objectOf(name string) types.NamespacedName {
	if object := r.broker.ObjectOf(name); object != nil {
		return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	}
	return types.NamespacedName{Namespace: r.namespace, Name: name}
}
