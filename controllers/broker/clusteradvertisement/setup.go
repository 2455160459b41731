// Package clusteradvertisement synchronizes ClusterAdvertisements with the broker's book. Manifests written by hand
// go into the book; the book's figures are shown in the objects.
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

// coalesce is how long changes of one cluster are gathered before its object is written.
const coalesce = 200 * time.Millisecond

// Reconciler reconciles ClusterAdvertisements.
type Reconciler struct {
	client    client.Client
	reader    client.Reader
	recorder  events.EventRecorder
	broker    *broker.Broker
	namespace string
	// shown are the figures last read or written, by object. Only one worker uses it.
	shown map[types.NamespacedName]figures
}

// Setup registers the controller. The objects of clusters with an agent are created in namespace, named by cluster
// ID.
func Setup(mgr ctrl.Manager, b *broker.Broker, namespace string) error {
	r := &Reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("clusteradvertisement"),
		broker: b, namespace: namespace, shown: map[types.NamespacedName]figures{},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusteradvertisement").
		For(&brokerv1alpha1.ClusterAdvertisement{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		WatchesRawSource(source.Func(r.watchBook)).
		Complete(r)
}

// watchBook enqueues the objects of clusters that change in the book, and all objects when a term begins.
func (r *Reconciler) watchBook(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go r.broker.Feed().Terms(ctx, func() {
		var list brokerv1alpha1.ClusterAdvertisementList
		if err := r.client.List(ctx, &list); err != nil {
			return // reading from the cache fails only while the manager stops
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

// objectOf returns the name of the object that shows a cluster.
func (r *Reconciler) objectOf(id string) types.NamespacedName {
	if manifest := r.broker.ManifestOf(id); manifest != nil {
		return types.NamespacedName{Namespace: manifest.Namespace, Name: manifest.Name}
	}
	return types.NamespacedName{Namespace: r.namespace, Name: id}
}
