// Package providerinstruction carries out the broker's instructions to this cluster as a
// provider. It decides whether to accept a placement, grants the ResourceSlices of accepted
// placements and denies all others, and reports to the broker when nothing of a placement is
// left.
package providerinstruction

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/events"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// Admit decides on a placement that has no decision yet. Only one goroutine at a time calls it.
// After an error it is called again. Once it has admitted a placement, it must count that placement
// as reserved in later calls, even while the cache does not show the decision yet.
type Admit func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (admission.Decision, error)

// Options of the controllers. Namespace, Admit, Reporter, Outbox, Recorder and Clock are required.
type Options struct {
	Namespace string
	// Admit decides whether this cluster provides a placement.
	Admit Admit
	// Peering peers through Liqo. It is nil for an agent that only reserves capacity.
	Peering *liqo.Peering
	// RightsNamespace is the agent's own, in whose annotations it keeps the rights of consumers; "" to keep none.
	RightsNamespace string
	// BindSlices restricts Liqo's role in offloaded namespaces to the identities of the slices of
	// acknowledged placements. Liqo itself gives the role to all identities of the consumer.
	BindSlices bool
	// AdmitSlice lets the consumer of a placement create its ResourceSlice. SetupWithManager sets it.
	AdmitSlice func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error
	// Place returns this cluster's location, for labels of virtual nodes in other clusters. It may be nil.
	Place func() guard.Place
	// ObjectLimits limit how many objects peers may have in each namespace.
	ObjectLimits guard.ObjectLimits
	// Placeholders configures pods that keep reserved capacity. If it is nil, there are no such
	// pods: the agent only counts the capacity as reserved.
	Placeholders *Placeholders
	// Reporter reports to the broker. Outbox delivers the reports.
	Reporter transport.StatusReporter
	Outbox   *outbox.Outbox
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Steps    *tracing.Steps
}

// Reconciler carries out ProviderInstructions.
type Reconciler struct {
	client  client.Client
	opts    Options
	reports outbox.Reports
	// queue holds instructions to reconcile: those whose report the broker has accepted, and those
	// whose condition Held changed.
	queue *instruction.Queue
	holds holds
}

// SetupWithManager adds the controllers to a manager. There is always one for the instructions.
// If Peering is set, there are others for the slices that Liqo replicates here, for the rights of
// the consumers and, if the options ask for them, for RoleBindings, quotas and placeholders.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	if opts.Peering != nil && opts.RightsNamespace != "" {
		opts.AdmitSlice = func(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
			return opts.Peering.AdmitSlice(ctx, opts.RightsNamespace, inst)
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
		// One worker only: Admit must not run concurrently, and all placements of a consumer share
		// one handshake.
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

// siblingRequests enqueues all instructions of a consumer when one of them is being released.
// Another instruction may now have to remove objects that they share, such as the tenant namespace.
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

func (r *Reconciler) withPeer(ctx context.Context, peer string) []reconcile.Request {
	return r.requestsMatching(ctx, func(i *agentv1alpha1.ProviderInstruction) bool { return i.Spec.RequesterClusterID == peer })
}

func (r *Reconciler) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requestsMatching(ctx, func(*agentv1alpha1.ProviderInstruction) bool { return true })
}

func (r *Reconciler) requestsMatching(ctx context.Context, match func(*agentv1alpha1.ProviderInstruction) bool) []reconcile.Request {
	return instruction.Matching(ctx, r.queue, &agentv1alpha1.ProviderInstructionList{}, match)
}

func (r *Reconciler) setupPeering(mgr ctrl.Manager) error {
	for _, setup := range []func(ctrl.Manager, Options) error{setupSlices, setupRights, setupBindings, setupObjectQuotas} {
		if err := setup(mgr, r.opts); err != nil {
			return err
		}
	}
	return r.setupPlaceholders(mgr)
}
