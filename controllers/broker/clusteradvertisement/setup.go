// Package clusteradvertisement keeps ClusterAdvertisements in step with the broker's
// book: what was written by hand is carried into the book, and what the book says
// of a cluster is shown.
package clusteradvertisement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clusteradvertisements,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clusteradvertisements/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// coalesce is how long changes of one cluster are gathered before they are shown.
const coalesce = 200 * time.Millisecond

// Reconciler reconciles ClusterAdvertisements.
type Reconciler struct {
	client    client.Client
	reader    client.Reader
	recorder  events.EventRecorder
	broker    *broker.Broker
	namespace string
	// shown are the figures that were last found or written, by name of the object.
	// One worker uses it.
	shown map[types.NamespacedName]figures
}

// Setup registers the controller. What agents advertise is shown in namespace,
// under the cluster's ID.
func Setup(mgr ctrl.Manager, b *broker.Broker, namespace string) error {
	r := &Reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("clusteradvertisement"),
		broker: b, namespace: namespace, shown: map[types.NamespacedName]figures{},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusteradvertisement").
		For(&brokerv1alpha1.ClusterAdvertisement{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		WatchesRawSource(source.Func(r.follow)).
		Complete(r)
}

// follow enqueues the objects of clusters that change in the book, and all there are
// when a term begins.
func (r *Reconciler) follow(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go r.broker.Feed().Terms(ctx, func() {
		var list brokerv1alpha1.ClusterAdvertisementList
		if err := r.client.List(ctx, &list); err != nil {
			return // the cache answers; it only fails while the manager stops
		}
		for i := range list.Items {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	})
	go func() {
		for {
			ids, err := r.broker.Feed().Clusters(ctx)
			if err != nil {
				return
			}
			for _, id := range ids {
				queue.AddAfter(reconcile.Request{NamespacedName: r.objectOf(id)}, coalesce)
			}
		}
	}()
	return nil
}

// objectOf is the object that shows a cluster.
func (r *Reconciler) objectOf(id string) types.NamespacedName {
	if manifest := r.broker.ManifestOf(id); manifest != nil {
		return types.NamespacedName{Namespace: manifest.Namespace, Name: manifest.Name}
	}
	return types.NamespacedName{Namespace: r.namespace, Name: id}
}
