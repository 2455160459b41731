// Package provisioningrequest serves ProvisioningRequests of class reserve.broker.fluidos.eu: it creates a
// ResourceRequest for each, and shows the progress in the conditions that Kueue and others read.
package provisioningrequest

import (
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/served"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
)

// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=provisioningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=provisioningrequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=get
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller. All but CheckInterval are required.
type Options struct {
	// Reader reads from the API server, for reads that a stale cache would make wrong: PodTemplates, and whether a
	// ResourceRequest exists.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.Clock
	// CheckInterval is the pause between two checks whether the CRD of ProvisioningRequest exists; 30 s by default.
	CheckInterval time.Duration
}

// Reconciler serves ProvisioningRequests.
type Reconciler struct {
	client  client.Client
	options Options
}

// New returns a Reconciler.
func New(c client.Client, options Options) *Reconciler {
	return &Reconciler{client: c, options: options}
}

// SetupWhenServed registers the controller once the CRD of ProvisioningRequest exists. Kueue and cluster-autoscaler
// install it.
func (r *Reconciler) SetupWhenServed(mgr ctrl.Manager) error {
	kind := autoscaling.GroupVersion.WithKind("ProvisioningRequest")
	return served.Setup(mgr, kind, r.options.CheckInterval, r.options.Clock, r.setupWithManager)
}

func (r *Reconciler) setupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("provisioningrequest").
		For(&autoscaling.ProvisioningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			pr, ok := o.(*autoscaling.ProvisioningRequest)
			return ok && isServed(pr)
		}))).
		Owns(&agentv1alpha1.ResourceRequest{}).
		Complete(r)
}
