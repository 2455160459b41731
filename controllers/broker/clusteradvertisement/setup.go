// Package clusteradvertisement synchronizes ClusterAdvertisements with the broker's state. It gives the broker the
// offers in ClusterAdvertisements that administrators write (manifests), and writes into all ClusterAdvertisements what
// the broker knows about the clusters.
package clusteradvertisement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/book"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clusteradvertisements,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clusteradvertisements/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// coalesce is how long the controller waits after a change of a cluster, so that it writes several changes at once.
const coalesce = 200 * time.Millisecond

// Reconciler reconciles ClusterAdvertisements.
type Reconciler struct {
	client    client.Client
	reader    client.Reader
	recorder  events.EventRecorder
	broker    *broker.Broker
	namespace string
	// shown holds, for each object, the values of reserved and available that the controller last read or wrote. It
	// needs no lock, because there is only one worker.
	shown map[types.NamespacedName]figures
}

// Setup registers the controller. It creates the objects of clusters with an agent in namespace and names them by the
// cluster ID.
func Setup(mgr ctrl.Manager, b *broker.Broker, namespace string) error {
	r := &Reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder(version.Product),
		broker: b, namespace: namespace, shown: map[types.NamespacedName]figures{},
	}
	shows := book.Watch{
		Feed: b.Feed(), Changed: b.Feed().Clusters, ObjectOf: r.objectOf,
		Delay: coalesce, All: &brokerv1alpha1.ClusterAdvertisementList{}, Client: r.client,
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusteradvertisement").
		For(&brokerv1alpha1.ClusterAdvertisement{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		WatchesRawSource(shows.Source()).
		Complete(r)
}

// objectOf returns the name of a cluster's ClusterAdvertisement: the one that an administrator wrote, or else the one
// that the broker creates.
func (r *Reconciler) objectOf(id string) types.NamespacedName {
	if manifest := r.broker.ManifestOf(id); manifest != nil {
		return types.NamespacedName{Namespace: manifest.Namespace, Name: manifest.Name}
	}
	return types.NamespacedName{Namespace: r.namespace, Name: id}
}
