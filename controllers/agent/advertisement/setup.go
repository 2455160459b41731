// Package advertisement tells the broker, and the people of this cluster, what
// the cluster offers.
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

// minGap is the least time between two looks at the figures, and so between two
// advertisements: what changes in between is told together.
const minGap = 250 * time.Millisecond

// Publisher takes advertisements; every broker transport is one.
type Publisher interface {
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Accounts is where the figures come from.
type Accounts interface {
	Synced() <-chan struct{}
	Changed() <-chan struct{}
	Snapshot() capacity.Snapshot
}

var _ Accounts = (*capacity.Watcher)(nil)

// Terms on which a cluster lends, as its operator has configured them.
type Terms interface {
	// Terms in force.
	Terms() Offered
	// Changed receives after other terms came into force, or were refused.
	Changed() <-chan struct{}
	// Conditions say whether what the operator wrote last is in force; none if there is
	// nothing that could change.
	Conditions() []metav1.Condition
}

// Offered is what a cluster says of itself and how much it lends.
type Offered struct {
	// Topology says where the cluster is; nil if that is not known.
	Topology *brokerv1alpha1.Topology
	// Cost, Labels and Claims of the cluster; those that are nil stand in the
	// Advertisement.
	Cost           *brokerv1alpha1.Cost
	Labels, Claims map[string]brokerv1alpha1.LabelValue
	// Terms say how much of what is free is lent.
	offering.Terms
}

// Options of a Reconciler. The zero value but for ClusterID is usable.
type Options struct {
	// ClusterID of this cluster; required.
	ClusterID string
	// ClusterName is a name for people; empty means ClusterID.
	ClusterName string
	// EndpointURL is the https address of this cluster's API server as consumers
	// reach it; empty if there is none.
	EndpointURL string
	// Terms on which the cluster lends, which may change; everything that is free, and
	// nothing is said of the cluster, if it is nil.
	Terms Terms
	// Name and Namespace of the Advertisement; DefaultName and DefaultNamespace.
	Name, Namespace string
	// InstructionNamespace is where ProviderInstructions stand; DefaultNamespace.
	InstructionNamespace string
	// Interval between two advertisements while nothing changes; DefaultInterval.
	// The broker may ask for another one, between a second and four times this.
	Interval time.Duration
	// Peers looks at the clusters that the broker asks about; nil if nobody does.
	Peers Peers
	// Certificate says how the agent's certificate is; nil if nobody is to be told.
	Certificate func() metav1.Condition
	// Guarded says whether admission keeps peers to what they reserved; nil if the cluster
	// shall not peer.
	Guarded *metav1.Condition
	// Liqo says how Liqo in this cluster is; nil if the cluster shall not peer.
	Liqo func(context.Context) metav1.Condition
	// Clock is the wall clock unless set.
	Clock clock.PassiveClock
}

func (o *Options) setDefaults() {
	o.Name = orDefault(o.Name, DefaultName)
	o.Namespace = orDefault(o.Namespace, DefaultNamespace)
	o.InstructionNamespace = orDefault(o.InstructionNamespace, DefaultNamespace)
	o.ClusterName = orDefault(o.ClusterName, o.ClusterID)
	o.Interval = orDefault(o.Interval, DefaultInterval)
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

// Reconciler publishes this cluster's Advertisement. There is one object, so its
// state needs no lock: a controller never works on one object twice at once.
type Reconciler struct {
	client    client.Client
	publisher Publisher
	accounts  Accounts
	recorder  events.EventRecorder
	options   Options
	// jitter spreads the agents of a fleet over the interval.
	jitter func(time.Duration) time.Duration

	missing, pending *prometheus.GaugeVec
	epoch            int64
	sequence         int64

	// written and generation are what the Advertisement was last given.
	written    *offer
	generation int64
	// published is what the broker has; nil until it took one.
	published *offer
	// bound is what advertisements leave out, and complete the condition that says so; nil
	// before the first one.
	bound    bound
	complete *metav1.Condition
	// due is when the broker is told next, whatever happened.
	due time.Time
	// looked is when the figures were last looked at.
	looked time.Time
	// failures counts the advertisements in a row that the broker did not take.
	failures int
	// ask is when the broker is asked next for its version; fits is what its last answer
	// says, nil before the first.
	ask  time.Time
	fits *metav1.Condition
	// urgent is set, once there is news of peers or terms, until the broker has it.
	urgent atomic.Bool
}

// New makes a Reconciler.
func New(c client.Client, publisher Publisher, accounts Accounts, recorder events.EventRecorder, options Options) *Reconciler {
	options.setDefaults()
	return &Reconciler{
		client: c, publisher: publisher, accounts: accounts, recorder: recorder, options: options,
		jitter: func(d time.Duration) time.Duration { return wait.Jitter(d*9/10, 0.2) },
		epoch:  options.Clock.Now().UnixNano(), missing: newMissingGauge(), pending: newPendingGauge(),
	}
}

// SetupWithManager registers the controller. accounts is run by the caller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	for what, metric := range map[string]*prometheus.GaugeVec{"missing": r.missing, "pending": r.pending} {
		if err := metrics.Registry.Register(metric); err != nil {
			return fmt.Errorf("metric of what is %s: %w", what, err)
		}
	}
	one := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{r.request()} }
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == r.options.Name && o.GetNamespace() == r.options.Namespace
	})
	instructions := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == r.options.InstructionNamespace
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("advertisement").
		// Status is our own; a change of spec is the operator's price.
		For(&agentv1alpha1.Advertisement{}, builder.WithPredicates(ours, predicate.GenerationChangedPredicate{})).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(instructions)).
		Watches(&agentv1alpha1.LendingPolicy{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.follow)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// follow reconciles once the figures are known, whenever they change, when a peer became
// reachable or ceased to be, and when the terms change. Where pods come and go all the
// time, most changes are never woken up for: the next look sees them all.
func (r *Reconciler) follow(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	var news, terms <-chan struct{} // nil never receives
	if r.options.Peers != nil {
		news = r.options.Peers.News()
	}
	if r.options.Terms != nil {
		terms = r.options.Terms.Changed()
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
			case <-terms:
				r.urgent.Store(true)
			}
			queue.Add(r.request())
		}
	}()
	return nil
}

func (r *Reconciler) request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.options.Namespace, Name: r.options.Name}}
}
