// Package provisioningrequest serves ProvisioningRequests of class reserve.broker.fluidos.eu: it creates a
// ResourceRequest for each, and shows the progress in the conditions that Kueue and others read.
package provisioningrequest

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
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
	if options.CheckInterval <= 0 {
		options.CheckInterval = 30 * time.Second
	}
	return &Reconciler{client: c, options: options}
}

// SetupWhenServed registers the controller once the CRD of ProvisioningRequest exists. Kueue and cluster-autoscaler
// install it, perhaps after the agent has started.
func (r *Reconciler) SetupWhenServed(mgr ctrl.Manager) error {
	server, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !r.awaitKind(ctx, server) {
			return nil // the manager stops
		}
		return r.setupWithManager(mgr)
	}))
}

// awaitKind waits until the API server serves ProvisioningRequests. It returns false if the context ends first. It logs
// only the first failed check, because many clusters never get the CRD.
func (r *Reconciler) awaitKind(ctx context.Context, server discovery.ServerResourcesInterface) bool {
	for logged := false; ; logged = true {
		served, err := isKindServed(server)
		switch {
		case served:
			return true
		case logged:
		case err != nil:
			log.FromContext(ctx).Error(err, "looking for the CRD of ProvisioningRequest failed, retrying", "after", r.options.CheckInterval.String())
		default:
			log.FromContext(ctx).Info("waiting for the CRD of ProvisioningRequest", "interval", r.options.CheckInterval.String())
		}
		select {
		case <-ctx.Done():
			return false
		case <-r.options.Clock.After(r.options.CheckInterval):
		}
	}
}

func isKindServed(server discovery.ServerResourcesInterface) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(autoscaling.GroupVersion.String())
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == "ProvisioningRequest" }), nil
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
