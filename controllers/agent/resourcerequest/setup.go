// Package resourcerequest takes users' ResourceRequests to the broker, has the answers carried
// out, and gives everything back when a request is deleted.
package resourcerequest

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
)

// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=reservationinstructions,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// firstRetry and lastRetry bound the pause before an unreachable broker is asked again. The
// pause grows with each failure.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// newsKept is how many news are buffered before Look blocks.
const newsKept = 256

// workers bounds how many requests wait for the broker at once.
const workers = 8

// Broker is the part of a broker transport that the controller needs.
type Broker interface {
	RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	transport.Releaser
	transport.Changer
}

// Options of a Reconciler. Only ClusterID is required.
type Options struct {
	// ClusterID of this cluster; required.
	ClusterID string
	// InstructionNamespace holds the ReservationInstructions; inbox.DefaultNamespace if empty.
	InstructionNamespace string
	// Reader reads from the API server directly, for data that must not be stale: the bounds of
	// a namespace. It defaults to the client.
	Reader client.Reader
	// Timeout of one call to the broker; 15 s by default.
	Timeout time.Duration
	// Clock is the wall clock unless set.
	Clock clock.Clock
}

func (o *Options) setDefaults() {
	if o.InstructionNamespace == "" {
		o.InstructionNamespace = inbox.DefaultNamespace
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

// Reconciler carries ResourceRequests to the broker.
type Reconciler struct {
	client   client.Client
	broker   Broker
	recorder events.EventRecorder
	options  Options
	retries  *flowcontrol.Backoff
	// admission is held while a request is checked against the sum of the others.
	admission sync.Mutex

	// mu guards the following.
	mu sync.Mutex
	// renewals is not kept across a restart: the first reconcile then asks the broker.
	renewals map[types.UID]renewal
	// news carries requests that the broker has news about.
	news chan event.TypedGenericEvent[types.NamespacedName]
}

// New creates a Reconciler.
func New(c client.Client, broker Broker, recorder events.EventRecorder, options Options) *Reconciler {
	options.setDefaults()
	if options.Reader == nil {
		options.Reader = c
	}
	retries := flowcontrol.NewBackOffWithJitter(firstRetry, lastRetry, 0.5)
	retries.Clock = options.Clock
	return &Reconciler{
		client: c, broker: broker, recorder: recorder, options: options,
		retries: retries, renewals: map[types.UID]renewal{}, news: make(chan event.TypedGenericEvent[types.NamespacedName], newsKept),
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("resourcerequest").
		For(&agentv1alpha1.ResourceRequest{}).
		Watches(&agentv1alpha1.ReservationInstruction{}, handler.EnqueueRequestsFromMapFunc(requestOf)).
		// For namespaces, only their creation and their opt-in label matter.
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.requestsNaming), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.TypedChannel(r.news, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{GenericFunc: r.enqueueNews})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Look makes the controller ask the broker again now. The broker has news about the request
// that no instruction conveys.
func (r *Reconciler) Look(name types.NamespacedName) {
	r.news <- event.TypedGenericEvent[types.NamespacedName]{Object: name}
}

func (r *Reconciler) enqueueNews(ctx context.Context, e event.TypedGenericEvent[types.NamespacedName], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var rr agentv1alpha1.ResourceRequest
	if err := r.client.Get(ctx, e.Object, &rr); err != nil {
		return // the request is gone
	}
	r.dropAnswer(&rr)
	queue.Add(reconcile.Request{NamespacedName: e.Object})
}

// requestOf returns the request that an instruction serves.
func requestOf(_ context.Context, o client.Object) []reconcile.Request {
	inst, ok := o.(*agentv1alpha1.ReservationInstruction)
	if !ok || inst.Spec.RequestRef == nil {
		return nil
	}
	ref := inst.Spec.RequestRef
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
}

// requestsNaming returns the requests that want to offload a namespace.
func (r *Reconciler) requestsNaming(ctx context.Context, o client.Object) []reconcile.Request {
	var list agentv1alpha1.ResourceRequestList
	if err := r.client.List(ctx, &list); err != nil {
		// A read from the cache only fails while the manager stops.
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		rr := &list.Items[i]
		if rr.Spec.Namespaces != nil && slices.Contains(*rr.Spec.Namespaces, o.GetName()) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(rr)})
		}
	}
	return out
}
