// Package providerinstruction carries out what the broker tells this cluster as a
// provider: it accepts a placement, grants its slice and no other, and confirms
// when nothing of it is left.
package providerinstruction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// An error is retried after 50 ms, doubling up to 5 s: most pass by themselves, and a
// broker that is back gives 10 s (its limits.Acknowledge).
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Admission is this cluster's own answer to a placement.
type Admission struct {
	// Admitted is false to refuse.
	Admitted bool
	// Reason is one of the API's, Message is for people.
	Reason, Message string
}

// Admit decides on a placement that was not decided yet. It is called by one
// goroutine at a time, again after an error. What it admits counts as enforced from
// then on, though a cache may show it later.
type Admit func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (Admission, error)

// Options of the controllers. Peering is optional, the rest is required.
type Options struct {
	// Namespace holds the instructions.
	Namespace string
	// Admit has the last word on what this cluster provides.
	Admit Admit
	// Peering through Liqo; nil for an agent that reserves and does not peer.
	Peering *liqo.Peering
	// Rights names the Advertisement in whose status is kept what the identities of
	// peers may do here.
	Rights types.NamespacedName
	// BindSlices keeps Liqo's RoleBindings in offloaded namespaces to live slices.
	BindSlices bool
	// OpenRights writes the rights of a placement that this cluster provides; it is set where
	// there is a Peering.
	OpenRights func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error
	// Place of this cluster becomes labels of the virtual nodes; nil if it is not known.
	Place func() guard.Place
	// ObjectLimits bound how many objects peers may have in each namespace.
	ObjectLimits guard.ObjectLimits
	// Placeholders keeps capacity with pods; nil where nothing but the ledger can.
	Placeholders *Placeholders
	// Reporter tells the broker; Outbox carries that and is started by its maker.
	Reporter outbox.StatusReporter
	Outbox   *outbox.Outbox
	// Clock stamps conditions.
	Clock clock.PassiveClock
}

// Reconciler drives ProviderInstructions.
type Reconciler struct {
	client  client.Client
	opts    Options
	reports outbox.Reports
	// heard carries the name of an instruction whose report the broker has taken, or of
	// one that is held otherwise than before.
	heard chan event.TypedGenericEvent[string]
	holds holds
}

// SetupWithManager adds the controllers to a manager: one for the instructions, one
// for the slices that other clusters' Liqo replicates here, one for what these clusters'
// identities may do, and where it is wanted one for quotas in their namespaces.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	if opts.Namespace == "" || opts.Admit == nil || opts.Reporter == nil || opts.Outbox == nil || opts.Clock == nil {
		return errors.New("providerinstruction: an option is missing")
	}
	if opts.Peering != nil {
		opts.OpenRights = func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
			return opts.Peering.OpenRights(ctx, opts.Rights, inst)
		}
	}
	r := &Reconciler{
		client: mgr.GetClient(), opts: opts,
		heard: make(chan event.TypedGenericEvent[string], 64),
	}
	r.reports = outbox.Reports{
		Outbox: opts.Outbox, Reporter: opts.Reporter, Role: v1.StatusReportRoleProvider,
		Log: mgr.GetLogger().WithName("providerinstruction"),
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("providerinstruction").
		For(&agentv1alpha1.ProviderInstruction{}).
		// One worker: Admit is asked in turn, and a pair shares its handshake.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(r.siblings)).
		Watches(&agentv1alpha1.LendingPolicy{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.TypedChannel(r.heard, handler.TypedEnqueueRequestsFromMapFunc(r.named)))
	kinds := []client.Object{&agentv1alpha1.ProviderInstruction{}, &agentv1alpha1.LendingPolicy{}}
	if opts.Peering != nil {
		kinds = append(kinds, opts.Peering.ProviderWatches()...)
		r.watchLiqo(b)
		if err := setupSlices(mgr, opts); err != nil {
			return err
		}
		if err := setupRights(mgr, opts); err != nil {
			return err
		}
		if err := setupBindings(mgr, opts); err != nil {
			return err
		}
		if err := setupObjectQuotas(mgr, opts); err != nil {
			return err
		}
		if err := r.setupPlaceholders(mgr); err != nil {
			return err
		}
	}
	// The first events are mapped to instructions while the watches are still being set
	// up, so all of them are known to the cache before any starts.
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("providerinstruction: watch %T: %w", kind, err)
		}
	}
	return b.Complete(r)
}

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

func (r *Reconciler) watchLiqo(b *builder.Builder) {
	for _, obj := range r.opts.Peering.ProviderWatches() {
		var options []builder.WatchesOption
		if liqo.MetadataOnly(obj) {
			options = append(options, builder.OnlyMetadata)
		}
		b.Watches(obj, handler.EnqueueRequestsFromMapFunc(r.concerned), options...)
	}
	b.WatchesRawSource(source.TypedChannel(r.opts.Peering.ProviderEvents(), handler.TypedEnqueueRequestsFromMapFunc(r.withPeer)))
}

func (r *Reconciler) request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.opts.Namespace, Name: name}}
}

func (r *Reconciler) named(_ context.Context, name string) []reconcile.Request {
	return []reconcile.Request{r.request(name)}
}

// siblings wakes those of the same consumer when one of them is about to go: what it
// needed may have become theirs to remove.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	inst, ok := obj.(*agentv1alpha1.ProviderInstruction)
	if !ok || !inst.Spec.Release {
		return nil
	}
	return r.withPeer(ctx, inst.Spec.RequesterClusterID)
}

func (r *Reconciler) concerned(ctx context.Context, obj client.Object) []reconcile.Request {
	concern := liqo.ConcernOf(obj)
	if concern.Placement != "" {
		request := r.request(concern.Placement)
		if r.client.Get(ctx, request.NamespacedName, &agentv1alpha1.ProviderInstruction{}) == nil {
			return []reconcile.Request{request}
		}
	}
	if concern.Peer == "" {
		return nil
	}
	return r.withPeer(ctx, concern.Peer)
}

// withPeer wakes the instructions for a consumer.
func (r *Reconciler) withPeer(ctx context.Context, peer string) (requests []reconcile.Request) {
	var list agentv1alpha1.ProviderInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.opts.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ProviderInstructions")
		return nil
	}
	for i := range list.Items {
		if list.Items[i].Spec.RequesterClusterID == peer {
			requests = append(requests, r.request(list.Items[i].Name))
		}
	}
	return requests
}
