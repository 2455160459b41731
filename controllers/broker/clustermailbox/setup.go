// Package clustermailbox answers ClusterMailboxes. A ClusterMailbox is the request of an agent that reaches the
// broker through the API server of the broker's cluster. The REST API handles it like any other request.
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

// Exchange is the broker's REST API for a caller whose identity is known.
type Exchange interface {
	// Answer writes the answer for clusterID to the request r. It returns as soon as r's context ends.
	Answer(w http.ResponseWriter, r *http.Request, clusterID string)
}

// Options of the controller. All are required.
type Options struct {
	// Clusters are the cluster IDs by namespace of their mailboxes. The manager's cache must include all these
	// namespaces.
	Clusters map[string]string
	Exchange Exchange
	// Serving reports whether this replica answers. Mailboxes wait until one replica does.
	Serving func() bool
	Clock   clock.PassiveClock
}

// Reconciler reconciles ClusterMailboxes.
type Reconciler struct {
	Options
	client client.Client
	// inProgress holds the mailboxes that this replica has started to answer, until they are deleted. The function
	// cancels the work. Only one worker uses the map.
	inProgress map[types.NamespacedName]context.CancelFunc
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Options: o, client: mgr.GetClient(), inProgress: map[types.NamespacedName]context.CancelFunc{}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clustermailbox").
		For(&brokerv1alpha1.ClusterMailbox{}).
		// A reconciliation never blocks: answering runs in its own goroutine.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}
