// Package advertisement publishes the cluster's offer: to the broker, and to the users of this
// cluster in the Advertisement.
package advertisement

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
)

// +kubebuilder:rbac:groups=liqo.io,resources=advertisements,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=liqo.io,resources=advertisements/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=providerinstructions,verbs=get;list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=lendingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Defaults of Options.
const (
	DefaultName      = "cluster-advertisement"
	DefaultNamespace = "default"
	DefaultInterval  = 30 * time.Second
)

// minGap is the shortest time between two readings of the accounts, and so between two
// advertisements. Changes within it are published together.
const minGap = 250 * time.Millisecond

// Publisher sends advertisements to the broker. Every broker transport implements it.
type Publisher interface {
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Accounts provides the capacity figures.
type Accounts interface {
	Synced() <-chan struct{}
	Changed() <-chan struct{}
	Snapshot() capacity.Snapshot
}

var _ Accounts = (*capacity.Watcher)(nil)

// Settings provides the operator's current settings.
type Settings interface {
	// Offered returns what is in force.
	Offered() Offered
	// Changed receives after new settings came into force or were rejected.
	Changed() <-chan struct{}
	// Conditions report whether the operator's latest configuration is in force. There are none
	// if the settings cannot change.
	Conditions() []metav1.Condition
}

// Offered describes a cluster and how much it lends.
type Offered struct {
	// Topology is the cluster's location; nil if unknown.
	Topology *brokerv1alpha1.Topology
	// Cost, Labels and Claims of the cluster. Those that are nil are taken from the
	// Advertisement.
	Cost           *brokerv1alpha1.Cost
	Labels, Claims map[string]brokerv1alpha1.LabelValue
	// Terms define how much of the free capacity is lent.
	offering.Rules
}

// Options of a Reconciler. Only ClusterID is required.
type Options struct {
	// ClusterID of this cluster; required.
	ClusterID string
	// ClusterName is a display name; empty means ClusterID.
	ClusterName string
	// EndpointURL is the https address at which consumers reach this cluster's API server;
	// empty if there is none.
	EndpointURL string
	// Settings provides the operator's settings, which may change. If it is nil, everything free is
	// lent, and the cluster has no description.
	Settings Settings
	// Name and Namespace of the Advertisement; if empty, DefaultName and DefaultNamespace.
	Name, Namespace string
	// InstructionNamespace holds the ProviderInstructions; DefaultNamespace if empty.
	InstructionNamespace string
	// Interval between two advertisements while nothing changes; DefaultInterval. The broker
	// may ask for a shorter one, down to a second, because it counts a cluster as silent after
	// three of its own.
	Interval time.Duration
	// Peers probes the clusters that the broker asks about; nil disables probes.
	Peers Peers
	// Certificate returns the condition of the agent's certificate; nil if it is not reported.
	Certificate func() metav1.Condition
	// Guarded reports whether admission limits peers to their reservations; nil without
	// peering.
	Guarded *metav1.Condition
	// Liqo returns the condition of Liqo in this cluster, nil for a cluster that need not peer.
	Liqo func(context.Context) *metav1.Condition
	// Clock is the wall clock unless set.
	Clock clock.PassiveClock
}

func (o *Options) setDefaults() {
	o.Name = orDefault(o.Name, DefaultName)
	o.Namespace = orDefault(o.Namespace, DefaultNamespace)
	o.InstructionNamespace = orDefault(o.InstructionNamespace, DefaultNamespace)
	o.ClusterName = orDefault(o.ClusterName, o.ClusterID)
	o.Interval = orDefault(o.Interval, DefaultInterval)
	if o.Liqo == nil {
		o.Liqo = func(context.Context) *metav1.Condition { return nil }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Reconciler publishes this cluster's Advertisement. There is one object, and a controller
// never reconciles one object twice at once, so the state needs no lock.
type Reconciler struct {
	client    client.Client
	publisher Publisher
	accounts  Accounts
	recorder  events.EventRecorder
	options   Options
	// jitter spreads the agents of a fleet over the interval.
	jitter func(time.Duration) time.Duration

	missing, pending *prometheus.GaugeVec
	// epoch is the number that the broker gave this agent, 0 before its first answer. sequence
	// numbers the advertisements.
	epoch, sequence int64

	// written and generation are the offer last written to the Advertisement and the generation
	// this produced.
	written    *offer
	generation int64
	// published is the offer that the broker last accepted; nil before the first one.
	published *offer
	// bound shortens advertisements, and complete is the condition that reports the omissions;
	// nil before the first advertisement.
	bound    bound
	complete *metav1.Condition
	// due is when to publish next even if nothing changes.
	due time.Time
	// looked is when the accounts were last read.
	looked time.Time
	// failures counts consecutive advertisements that the broker did not accept.
	failures int
	// ask is when to query the broker's version next. fits is the condition derived from its
	// last answer; nil before the first.
	ask  time.Time
	fits *metav1.Condition
	// urgent is set by news of peers or settings and cleared when they are sent.
	urgent atomic.Bool
}

// New creates a Reconciler.
func New(c client.Client, publisher Publisher, accounts Accounts, recorder events.EventRecorder, options Options) *Reconciler {
	options.setDefaults()
	return &Reconciler{
		client: c, publisher: publisher, accounts: accounts, recorder: recorder, options: options,
		jitter:  func(d time.Duration) time.Duration { return wait.Jitter(d*9/10, 0.2) },
		missing: newMissingGauge(), pending: newPendingGauge(),
	}
}

// SetupWithManager registers the controller. The caller runs accounts.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for what, metric := range map[string]*prometheus.GaugeVec{"missing": r.missing, "pending": r.pending} {
		if err := metrics.Registry.Register(metric); err != nil {
			return fmt.Errorf("metric of %s resources: %w", what, err)
		}
	}
	one := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.ownRequest()} }
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == r.options.Name && o.GetNamespace() == r.options.Namespace
	})
	instructions := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == r.options.InstructionNamespace
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("advertisement").
		// The controller writes the status itself. A change of spec is the operator's, for
		// example a price.
		For(&agentv1alpha1.Advertisement{}, builder.WithPredicates(ours, predicate.GenerationChangedPredicate{})).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(instructions)).
		Watches(&agentv1alpha1.LendingPolicy{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.followAccounts)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// followAccounts triggers a reconcile when the accounts are complete or change, when the reachability
// of a peer changes, and when the settings change. If pods come and go all the time, one reconcile
// covers many changes.
func (r *Reconciler) followAccounts(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	var news, settings <-chan struct{} // nil never receives
	if r.options.Peers != nil {
		news = r.options.Peers.News()
	}
	if r.options.Settings != nil {
		settings = r.options.Settings.Changed()
	}
	go func() {
		changes, rested := r.accounts.Changed(), (<-chan time.Time)(nil)
		for {
			select {
			case <-ctx.Done():
				return
			case <-rested:
				changes, rested = r.accounts.Changed(), nil
				continue
			case <-changes:
				changes, rested = nil, time.After(minGap)
			case <-news:
				r.urgent.Store(true)
			case <-settings:
				r.urgent.Store(true)
			}
			queue.Add(r.ownRequest())
		}
	}()
	return nil
}

func (r *Reconciler) ownRequest() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.options.Namespace, Name: r.options.Name}}
}
