// Package clustermailbox answers ClusterMailboxes: the requests of agents that speak to
// the broker through its cluster's API server. They take the way of all others from
// there on.
package clustermailbox

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clustermailboxes,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=clustermailboxes/status,verbs=patch

// Exchange is the broker's REST API, for a caller that is known.
type Exchange interface {
	// Answer writes what clusterID is answered to r. It returns as soon as r's context
	// ends.
	Answer(w http.ResponseWriter, r *http.Request, clusterID string)
}

// Options of the controller. All are required.
type Options struct {
	// Clusters are the IDs of the clusters whose mailboxes are answered, by namespace.
	// The manager's cache has those of all these namespaces.
	Clusters map[string]string
	Exchange Exchange
	// Serving says whether this replica answers; the mailboxes wait until one does.
	Serving func() bool
	Clock   clock.PassiveClock
}

// Reconciler reconciles ClusterMailboxes.
type Reconciler struct {
	Options
	client client.Client
	// taken are the mailboxes that this replica has taken up, until they are gone; the
	// value ends the work on one. One worker uses it.
	taken map[types.NamespacedName]context.CancelFunc
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Options: o, client: mgr.GetClient(), taken: map[types.NamespacedName]context.CancelFunc{}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clustermailbox").
		For(&brokerv1alpha1.ClusterMailbox{}).
		// Nothing waits in it for an answer.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}
