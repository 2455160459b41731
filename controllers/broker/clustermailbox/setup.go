// Package clustermailbox answers ClusterMailboxes. In a ClusterMailbox, an agent that cannot reach the broker's REST
// API sends a request through the API server of the broker's cluster. The REST API handles it like any other request.
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

// Exchange answers REST requests of a caller that is already authenticated.
type Exchange interface {
	// Answer answers request r of cluster clusterID. It returns as soon as the context of r ends.
	Answer(w http.ResponseWriter, r *http.Request, clusterID string)
}

// Options configure the controller. All fields are required.
type Options struct {
	// Clusters maps the namespaces of mailboxes to cluster IDs. The manager's cache must include all these namespaces.
	Clusters map[string]string
	Exchange Exchange
	// Serving reports whether this replica leads and can answer. While it returns false, this replica leaves
	// mailboxes alone.
	Serving func() bool
	Clock   clock.PassiveClock
}

// Reconciler reconciles ClusterMailboxes.
type Reconciler struct {
	Options
	client client.Client
	// inProgress holds the mailboxes that this replica has started to answer, until they are deleted. Each value is the
	// function that cancels the work. The map needs no lock, because there is only one worker.
	inProgress map[types.NamespacedName]context.CancelFunc
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{Options: o, client: mgr.GetClient(), inProgress: map[types.NamespacedName]context.CancelFunc{}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clustermailbox").
		For(&brokerv1alpha1.ClusterMailbox{}).
		// One worker is enough: a reconciliation never blocks, because each answer is computed in its own goroutine.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}
