// Package providerinstruction carries out the broker's instructions to this cluster as a
// provider. It accepts a placement, grants its slice and no other, and confirms when nothing of
// it is left.
package providerinstruction

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// Admission is this cluster's decision about a placement.
type Admission struct {
	// Admitted is false for a refusal.
	Admitted bool
	// Reason is one of the API's reasons. Message is the explanation for users.
	Reason, Message string
}

// Admit decides on a placement that has no decision yet. Only one goroutine calls it at a time;
// after an error it is called again. An admitted placement counts as enforced at once, although
// a cache may show that later.
type Admit func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (Admission, error)

// Options of the controllers. Namespace, Admit, Reporter, Outbox and Clock are required.
type Options struct {
	// Namespace holds the instructions.
	Namespace string
	// Admit makes the final decision about the placements that this cluster provides.
	Admit Admit
	// Peering through Liqo; nil for an agent that reserves and does not peer.
	Peering *liqo.Peering
	// Rights names the Advertisement whose status records the rights of the peers' identities.
	Rights types.NamespacedName
	// BindSlices limits Liqo's RoleBindings in offloaded namespaces to live slices.
	BindSlices bool
	// OpenRights writes the rights of a placement that this cluster provides. It is set if
	// Peering is.
	OpenRights func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error
	// Place returns this cluster's location, which becomes labels of the virtual nodes; nil if
	// it is unknown.
	Place func() guard.Place
	// ObjectLimits bound how many objects peers may have in each namespace.
	ObjectLimits guard.ObjectLimits
	// Placeholders keeps capacity with pods; nil if only the ledger keeps it.
	Placeholders *Placeholders
	// Reporter reports to the broker. Outbox delivers the reports; the code that created it
	// starts it.
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
	// queue gets the instructions whose report the broker has received, or whose hold changed.
	queue *instruction.Queue
	holds holds
}

// SetupWithManager adds the controllers to a manager: one for the instructions, one for the
// slices that Liqo replicates here from other clusters, one for the rights of those clusters'
// identities, and, if configured, one for quotas in their namespaces.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	if opts.Namespace == "" || opts.Admit == nil || opts.Reporter == nil || opts.Outbox == nil || opts.Clock == nil {
		return errors.New("providerinstruction: an option is missing")
	}
	if opts.Peering != nil {
		opts.OpenRights = func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
			return opts.Peering.OpenRights(ctx, opts.Rights, inst)
		}
	}
	r := &Reconciler{client: mgr.GetClient(), opts: opts, queue: instruction.NewQueue(mgr.GetClient(), opts.Namespace)}
	r.reports = outbox.Reports{
		Outbox: opts.Outbox, Reporter: opts.Reporter, Role: v1.StatusReportRoleProvider,
		Log: mgr.GetLogger().WithName("providerinstruction"),
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("providerinstruction").
		For(&agentv1alpha1.ProviderInstruction{}).
		// One worker only: Admit must not run concurrently, and the placements of a pair share
		// a handshake.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: instruction.Retries()}).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(r.siblingRequests)).
		Watches(&agentv1alpha1.LendingPolicy{}, handler.EnqueueRequestsFromMapFunc(r.allRequests), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	r.queue.Watch(b)
	kinds := []client.Object{&agentv1alpha1.ProviderInstruction{}, &agentv1alpha1.LendingPolicy{}}
	if opts.Peering != nil {
		kinds = append(kinds, opts.Peering.ProviderWatches()...)
		instruction.WatchLiqo(b, opts.Peering.ProviderWatches(), r.concernedRequests, opts.Peering.ProviderEvents(), r.withPeer)
		if err := r.setupPeering(mgr); err != nil {
			return err
		}
	}
	if err := instruction.AwaitInformers(mgr, kinds...); err != nil {
		return fmt.Errorf("providerinstruction: %w", err)
	}
	return b.Complete(r)
}

// siblingRequests enqueues the other instructions of the same consumer when one is about to go. They
// may become responsible for removing what they shared with it.
func (r *Reconciler) siblingRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	inst, ok := obj.(*agentv1alpha1.ProviderInstruction)
	if !ok || !inst.Spec.Release {
		return nil
	}
	return r.withPeer(ctx, inst.Spec.RequesterClusterID)
}

func (r *Reconciler) concernedRequests(ctx context.Context, obj client.Object) []reconcile.Request {
	concern := liqo.ConcernOf(obj)
	if requests := r.queue.Placed(ctx, concern, &agentv1alpha1.ProviderInstruction{}); requests != nil || concern.Peer == "" {
		return requests
	}
	return r.withPeer(ctx, concern.Peer)
}

// withPeer enqueues the instructions of a consumer.
func (r *Reconciler) withPeer(ctx context.Context, peer string) []reconcile.Request {
	return r.requestsMatching(ctx, func(i *agentv1alpha1.ProviderInstruction) bool { return i.Spec.RequesterClusterID == peer })
}

// all enqueues every instruction, because a policy may affect any of them.
func (r *Reconciler) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requestsMatching(ctx, func(*agentv1alpha1.ProviderInstruction) bool { return true })
}

func (r *Reconciler) requestsMatching(ctx context.Context, match func(*agentv1alpha1.ProviderInstruction) bool) []reconcile.Request {
	return instruction.Matching(ctx, r.queue, &agentv1alpha1.ProviderInstructionList{}, match)
}

// setupPeering adds the controllers that serve peers beside the instructions.
func (r *Reconciler) setupPeering(mgr ctrl.Manager) error {
	for _, setup := range []func(ctrl.Manager, Options) error{setupSlices, setupRights, setupBindings, setupObjectQuotas} {
		if err := setup(mgr, r.opts); err != nil {
			return err
		}
	}
	return r.setupPlaceholders(mgr)
}
