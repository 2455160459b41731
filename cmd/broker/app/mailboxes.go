package app

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/clustermailbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// mailboxCache limits the cache of ClusterMailboxes to the namespaces of clusters, so that the
// broker needs rights only there.
func mailboxCache(namespaces map[string]string) map[client.Object]cache.ByObject {
	if len(namespaces) == 0 {
		return nil
	}
	watched := map[string]cache.Config{}
	for _, namespace := range namespaces {
		watched[namespace] = cache.Config{}
	}
	return map[client.Object]cache.ByObject{&brokerv1alpha1.ClusterMailbox{}: {Namespaces: watched}}
}

// clustersByNamespace returns which cluster each namespace belongs to, from the map of --mailboxes.
// It returns an error if two clusters have one namespace, because then either could act as the
// other.
func clustersByNamespace(namespaces map[string]string) (map[string]string, error) {
	clusters := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(namespaces)) {
		namespace := namespaces[id]
		if !pki.ValidClusterID(id) {
			return nil, fmt.Errorf("--mailboxes: cluster ID %q is invalid: use a DNS label of at most %d lower-case characters", id, pki.MaxClusterIDLength)
		}
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return nil, fmt.Errorf("--mailboxes: %q of cluster %q is not a valid namespace name", namespace, id)
		}
		if other, taken := clusters[namespace]; taken {
			return nil, fmt.Errorf("--mailboxes: namespace %q is given to %q and to %q: give each cluster its own", namespace, other, id)
		}
		clusters[namespace] = id
	}
	return clusters, nil
}

// addMailboxes registers the controller that answers ClusterMailboxes.
func addMailboxes(mgr ctrl.Manager, b *broker.Broker, s *server.Server, o *options) error {
	clusters, err := clustersByNamespace(o.mailboxes)
	if err != nil || len(clusters) == 0 {
		return err
	}
	return clustermailbox.Setup(mgr, clustermailbox.Options{
		Clusters: clusters, Exchange: s, Serving: b.Serving, Clock: clock.RealClock{},
	})
}
