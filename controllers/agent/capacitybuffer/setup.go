// Package capacitybuffer serves CapacityBuffers of strategy reserve.broker.fluidos.eu/borrowed: it keeps one
// ResourceRequest for each, as large as the pods that use it and the room that is to stay free. burst.PlanBuffer decides
// what to change.
package capacitybuffer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/served"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=capacitybuffers,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=capacitybuffers/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=get
// +kubebuilder:rbac:groups=apps,resources=deployments;replicasets;statefulsets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Pods counts the pods of this cluster. capacity.Watcher implements it.
type Pods interface {
	// GuestsOn returns the pods of workloads on a virtual node, and false if they are not known.
	GuestsOn(nodeName string) (capacity.Guests, bool)
	// OwnRequestsOn returns the sum of the requests of the pods on a virtual node.
	OwnRequestsOn(nodeName string) quantity.Amounts
}

// Options of the controller. All but the intervals are required.
type Options struct {
	Pods Pods
	// Reader reads from the API server, not from a cache that may be outdated: PodTemplates and workloads, new
	// ResourceRequests, and the pods on a node whose request is about to shrink.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.Clock
	// CheckInterval is the pause between two checks whether the CRD of CapacityBuffer exists; 30 s by default.
	// CountInterval is the pause between two counts of the pods that use a buffer; 10 s by default.
	CheckInterval, CountInterval time.Duration
}

// Reconciler serves CapacityBuffers. Only one Reconcile may run at a time.
type Reconciler struct {
	client   client.Client
	options  Options
	measured map[types.NamespacedName]*measured
}

// measured holds what the agent has seen of the request of a buffer over time. After a restart of the agent it begins
// anew.
type measured struct {
	request types.UID
	surplus burst.Surplus
	// overAt is when the request was first seen to be over.
	overAt time.Time
}

// New returns a Reconciler. Intervals that options leave empty get their defaults.
func New(c client.Client, options Options) *Reconciler {
	if options.CountInterval <= 0 {
		options.CountInterval = 10 * time.Second
	}
	return &Reconciler{client: c, options: options, measured: map[types.NamespacedName]*measured{}}
}

// SetupWhenServed registers the controller once the CRD of CapacityBuffer exists. Autoscalers install it.
func (r *Reconciler) SetupWhenServed(mgr ctrl.Manager) error {
	kind := autoscaling.BufferGroupVersion.WithKind("CapacityBuffer")
	return served.Setup(mgr, kind, r.options.CheckInterval, r.options.Clock, r.setupWithManager)
}

func (r *Reconciler) setupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("capacitybuffer").
		For(&autoscaling.CapacityBuffer{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&agentv1alpha1.ResourceRequest{}).
		Complete(r)
}
