// Package reservationinstruction carries out the broker's instructions to this cluster as a
// consumer. For each placement it makes Liqo create a virtual node, and removes the node when the
// placement ends.
package reservationinstruction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/instruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Options of the controller. All except Peering, Reach, ExpiryNotice, ObserveDrain and Steps are
// required.
type Options struct {
	Namespace string
	// Peering peers through Liqo. It is nil for an agent that only reserves capacity.
	Peering *liqo.Peering
	// Reach probes providers. It must be set if Peering is set, and nil otherwise.
	Reach Reach
	// Reporter reports to the broker. Outbox delivers the reports.
	Reporter transport.StatusReporter
	Outbox   *outbox.Outbox
	Clock    clock.PassiveClock
	// ExpiryNotice is how long before the expiry the condition Ending announces it; 0 announces nothing.
	ExpiryNotice time.Duration
	Recorder     events.EventRecorder
	// ObserveDrain is called with the result and the duration of each drain that has ended. It may be nil.
	ObserveDrain func(DrainResult, time.Duration)
	Steps        *tracing.Steps
}

// Reconciler carries out ReservationInstructions.
type Reconciler struct {
	client  client.Client
	opts    Options
	reports outbox.Reports
	// peering is Options.Peering as an interface, so that tests can replace it; nil if
	// Options.Peering is nil.
	peering peering
	// queue holds instructions to reconcile because the broker has accepted their report.
	queue *instruction.Queue
	// drained contains the names of the instructions whose drain was passed to ObserveDrain. It
	// prevents a second call when the cache still shows an earlier status.
	drained map[string]bool
}

// peering is the part of liqo.Peering that this controller needs.
type peering interface {
	Consume(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (plan.ConsumerState, error)
	DepartConsumer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error)
	CloseNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (empty bool, again time.Duration, err error)
	ReopenNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) error
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr manager.Manager, opts Options) error {
	r := &Reconciler{client: mgr.GetClient(), opts: opts, queue: instruction.NewQueue(mgr.GetClient(), opts.Namespace), drained: map[string]bool{}}
	r.reports = outbox.Reports{
		Outbox: opts.Outbox, Reporter: opts.Reporter, Role: v1.StatusReportRoleConsumer,
		Log: mgr.GetLogger().WithName("reservationinstruction"),
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("reservationinstruction").
		For(&agentv1alpha1.ReservationInstruction{}).
		// One worker only: all placements at one provider share one handshake.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: instruction.Retries()}).
		Watches(&agentv1alpha1.ReservationInstruction{}, handler.EnqueueRequestsFromMapFunc(r.siblingRequests))
	r.queue.Watch(b)
	kinds := []client.Object{&agentv1alpha1.ReservationInstruction{}}
	if opts.Peering != nil {
		r.peering = opts.Peering
		kinds = append(kinds, opts.Peering.ConsumerWatches()...)
		instruction.WatchLiqo(b, opts.Peering.ConsumerWatches(), r.concernedRequests, opts.Peering.ConsumerEvents(), r.withPeer)
		b.WatchesRawSource(source.TypedChannel(opts.Reach.Checked(), handler.TypedEnqueueRequestsFromMapFunc(r.queue.Named)))
	}
	if err := instruction.AwaitInformers(mgr, kinds...); err != nil {
		return fmt.Errorf("reservationinstruction: %w", err)
	}
	return b.Complete(r)
}

func (r *Reconciler) withPeer(ctx context.Context, peer string) []reconcile.Request {
	return r.matchingRequests(ctx, func(i *agentv1alpha1.ReservationInstruction) bool { return i.Spec.TargetClusterID == peer })
}

// siblingRequests enqueues the instructions that share the provider or a namespace with an
// instruction that is being released. Another instruction may now have to remove objects that they
// share, such as the tenant namespace.
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
	if requests := r.queue.Placed(ctx, concern, &agentv1alpha1.ReservationInstruction{}); requests != nil {
		return requests
	}
	if concern.Peer == "" && concern.Namespace == "" {
		return nil
	}
	return r.matchingRequests(ctx, func(i *agentv1alpha1.ReservationInstruction) bool {
		return concern.Peer != "" && i.Spec.TargetClusterID == concern.Peer || slices.Contains(i.Spec.Namespaces, concern.Namespace)
	})
}

func (r *Reconciler) matchingRequests(ctx context.Context, match func(*agentv1alpha1.ReservationInstruction) bool) []reconcile.Request {
	return instruction.Matching(ctx, r.queue, &agentv1alpha1.ReservationInstructionList{}, match)
}
