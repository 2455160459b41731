// Package resourcerequest asks the broker for the capacity in users' ResourceRequests, writes
// ReservationInstructions for the answers, and releases everything when a request is deleted.
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=reservationinstructions,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// firstRetry and lastRetry are the shortest and the longest pause before the broker is asked again
// after an error. The pause doubles with each error.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// newsKept is how many requests passed to Look may wait for the controller. While that many wait,
// Look blocks.
const newsKept = 256

// workers is how many requests are reconciled at the same time. There are several, because a worker
// waits until the broker has answered.
const workers = 8

// Broker is the part of a broker transport that this controller needs.
type Broker interface {
	RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error)
	transport.Releaser
	transport.Changer
}

// Options of a Reconciler. All but HideActors and Receipts are required.
type Options struct {
	ClusterID            string
	InstructionNamespace string
	// Reader reads from the API server the bounds of a namespace and the requests that count against them, because a
	// stale cache could let requests exceed the bounds.
	Reader client.Reader
	Clock  clock.Clock
	// HideActors makes the agent send no names of users to the broker.
	HideActors bool
	// Receipts checks the broker's receipts. If it is nil, none are kept.
	Receipts *receipt.Checker
}

// reported returns the name of a user as it may be sent to the broker.
func (o *Options) reported(user string) string {
	if o.HideActors {
		return ""
	}
	return actor.Clean(user)
}

// Reconciler asks the broker about ResourceRequests and keeps their status up to date.
type Reconciler struct {
	client   client.Client
	broker   Broker
	recorder events.EventRecorder
	options  Options
	retries  *flowcontrol.Backoff
	// admission is held while a request is checked against the quotas of its namespace and admitted.
	admission sync.Mutex

	// mu protects renewals and obstacles.
	mu sync.Mutex
	// renewals holds the broker's latest answer about each request, by the request's UID. It is empty
	// after a restart, so that the broker is asked about every request.
	renewals map[types.UID]renewal
	// obstacles holds why no other cluster takes over a request, by the request's UID.
	obstacles map[types.UID]obstacle
	// news receives the requests that were passed to Look.
	news chan event.TypedGenericEvent[types.NamespacedName]
}

// New returns a Reconciler.
func New(c client.Client, broker Broker, recorder events.EventRecorder, options Options) *Reconciler {
	retries := flowcontrol.NewBackOffWithJitter(firstRetry, lastRetry, 0.5)
	retries.Clock = options.Clock
	return &Reconciler{
		client: c, broker: broker, recorder: recorder, options: options,
		retries: retries, renewals: map[types.UID]renewal{}, obstacles: map[types.UID]obstacle{}, news: make(chan event.TypedGenericEvent[types.NamespacedName], newsKept),
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("resourcerequest").
		For(&agentv1alpha1.ResourceRequest{}).
		Watches(&agentv1alpha1.ReservationInstruction{}, handler.EnqueueRequestsFromMapFunc(requestOf)).
		Watches(&agentv1alpha1.Quote{}, handler.EnqueueRequestsFromMapFunc(r.requestsQuoting)).
		// The label OffloadLabel decides whether requests may offload a namespace. Nothing else in a
		// namespace matters.
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.requestsNaming), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.TypedChannel(r.news, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{GenericFunc: r.enqueueNews})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Look makes the controller ask the broker again about a request. It is called when the request's phase has changed at
// the broker without an instruction, for example in the queue.
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

func requestOf(_ context.Context, o client.Object) []reconcile.Request {
	inst, ok := o.(*agentv1alpha1.ReservationInstruction)
	if !ok || inst.Spec.RequestRef == nil {
		return nil
	}
	ref := inst.Spec.RequestRef
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
}

func (r *Reconciler) requestsNaming(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requestsWhere(ctx, func(rr *agentv1alpha1.ResourceRequest) bool {
		return rr.Spec.Namespaces != nil && slices.Contains(*rr.Spec.Namespaces, o.GetName())
	})
}

func (r *Reconciler) requestsWhere(ctx context.Context, matches func(*agentv1alpha1.ResourceRequest) bool) (out []reconcile.Request) {
	var list agentv1alpha1.ResourceRequestList
	_ = r.client.List(ctx, &list) // reading from the cache fails only while the manager stops
	for i := range list.Items {
		if rr := &list.Items[i]; matches(rr) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(rr)})
		}
	}
	return out
}
