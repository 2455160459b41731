// Package reservationinstruction carries out the broker's instructions to this cluster as a
// consumer. It turns a placement into a virtual node and takes it down again.
package reservationinstruction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// firstRetry and lastRetry bound the pause after an error, which doubles each time. Most errors
// pass by themselves, and a broker that has restarted waits only a limited time for a report.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Options of the controller. Peering and Reach are optional, the rest is required.
type Options struct {
	// Namespace holds the instructions.
	Namespace string
	// Peering through Liqo; nil for an agent that reserves and does not peer.
	Peering *liqo.Peering
	// Reach probes providers. It is nil if and only if Peering is.
	Reach Reach
	// Reporter reports to the broker. Outbox delivers the reports; the code that created it
	// starts it.
	Reporter outbox.StatusReporter
	Outbox   *outbox.Outbox
	// Clock stamps conditions.
	Clock clock.PassiveClock
	// ExpiryNotice is how long in advance the expiry of a reservation is announced; zero
	// disables the notice.
	ExpiryNotice time.Duration
	// Recorder records events on instructions.
	Recorder events.EventRecorder
}

// Reconciler drives ReservationInstructions.
type Reconciler struct {
	client  client.Client
	opts    Options
	reports outbox.Reports
	// heard carries the name of an instruction whose report the broker has received.
	heard chan event.TypedGenericEvent[string]
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	if opts.Namespace == "" || opts.Reporter == nil || opts.Outbox == nil || opts.Clock == nil || opts.Recorder == nil || (opts.Peering == nil) != (opts.Reach == nil) {
		return errors.New("reservationinstruction: an option is missing")
	}
	r := &Reconciler{
		client: mgr.GetClient(), opts: opts,
		heard: make(chan event.TypedGenericEvent[string], 64),
	}
	r.reports = outbox.Reports{
		Outbox: opts.Outbox, Reporter: opts.Reporter, Role: v1.StatusReportRoleConsumer,
		Log: mgr.GetLogger().WithName("reservationinstruction"),
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("reservationinstruction").
		For(&agentv1alpha1.ReservationInstruction{}).
		// One worker only: the placements of a pair share a handshake.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)}).
		Watches(&agentv1alpha1.ReservationInstruction{}, handler.EnqueueRequestsFromMapFunc(r.siblingRequests)).
		WatchesRawSource(source.TypedChannel(r.heard, handler.TypedEnqueueRequestsFromMapFunc(r.requestsNamed)))
	kinds := []client.Object{&agentv1alpha1.ReservationInstruction{}}
	if opts.Peering != nil {
		kinds = append(kinds, opts.Peering.ConsumerWatches()...)
		r.watchLiqo(b)
	}
	// The first events are mapped to instructions while the watches are still being set up. The
	// cache must therefore know every kind before any watch starts.
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("reservationinstruction: watch %T: %w", kind, err)
		}
	}
	return b.Complete(r)
}

func (r *Reconciler) watchLiqo(b *builder.Builder) {
	for _, obj := range r.opts.Peering.ConsumerWatches() {
		var options []builder.WatchesOption
		if liqo.MetadataOnly(obj) {
			options = append(options, builder.OnlyMetadata)
		}
		b.Watches(obj, handler.EnqueueRequestsFromMapFunc(r.concernedRequests), options...)
	}
	b.WatchesRawSource(source.TypedChannel(r.opts.Peering.ConsumerEvents(), handler.TypedEnqueueRequestsFromMapFunc(r.withPeer)))
	b.WatchesRawSource(source.TypedChannel(r.opts.Reach.Checked(), handler.TypedEnqueueRequestsFromMapFunc(r.requestsNamed)))
}

func (r *Reconciler) requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.opts.Namespace, Name: name}}
}

func (r *Reconciler) requestsNamed(_ context.Context, name string) []reconcile.Request {
	return []reconcile.Request{r.requestFor(name)}
}

// withPeer enqueues the instructions that target a provider.
func (r *Reconciler) withPeer(ctx context.Context, peer string) []reconcile.Request {
	return r.matchingRequests(ctx, func(i *agentv1alpha1.ReservationInstruction) bool { return i.Spec.TargetClusterID == peer })
}

// siblingRequests enqueues the instructions that share the provider or a namespace with one that is
// being released. They may become responsible for removing what they shared with it.
func (r *Reconciler) siblingRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	inst, ok := obj.(*agentv1alpha1.ReservationInstruction)
	if !ok || !inst.Spec.Release {
		return nil
	}
	return r.matchingRequests(ctx, func(i *agentv1alpha1.ReservationInstruction) bool {
		return i.Name != inst.Name && (i.Spec.TargetClusterID == inst.Spec.TargetClusterID ||
			slices.ContainsFunc(i.Spec.Namespaces, func(ns string) bool { return slices.Contains(inst.Spec.Namespaces, ns) }))
	})
}

func (r *Reconciler) concernedRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	concern := liqo.ConcernOf(obj)
	if concern.Placement != "" {
		request := r.requestFor(concern.Placement)
		if r.client.Get(ctx, request.NamespacedName, &agentv1alpha1.ReservationInstruction{}) == nil {
			return []reconcile.Request{request}
		}
	}
	if concern.Peer == "" && concern.Namespace == "" {
		return nil
	}
	return r.matchingRequests(ctx, func(i *agentv1alpha1.ReservationInstruction) bool {
		return concern.Peer != "" && i.Spec.TargetClusterID == concern.Peer || slices.Contains(i.Spec.Namespaces, concern.Namespace)
	})
}

func (r *Reconciler) matchingRequests(ctx context.Context, match func(*agentv1alpha1.ReservationInstruction) bool) (requests []reconcile.Request) {
	var list agentv1alpha1.ReservationInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.opts.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ReservationInstructions")
		return nil
	}
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, r.requestFor(list.Items[i].Name))
		}
	}
	return requests
}
