// Package advertisement publishes the cluster's offer: it sends the offer to the broker, and shows
// it to the users of this cluster in the Advertisement object.
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// +kubebuilder:rbac:groups=liqo.io,resources=advertisements,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=liqo.io,resources=advertisements/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=providerinstructions,verbs=get;list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=lendingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// minGap is the shortest time between two computations of the offer. Changes within this time are
// published together.
const minGap = 250 * time.Millisecond

// Publisher sends advertisements to the broker. Every broker transport implements it.
type Publisher interface {
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	Ping(ctx context.Context) (*v1.Pong, error)
}

// Accounts provides the totals of the cluster's nodes and pods.
type Accounts interface {
	Synced() <-chan struct{}
	Changed() <-chan struct{}
	Snapshot() capacity.Snapshot
	GuestsOn(node string) (capacity.Guests, bool)
}

var _ Accounts = (*capacity.Watcher)(nil)

// Settings provides the operator's settings.
type Settings interface {
	// Offered returns the settings that are in force.
	Offered() Offered
	// Changed receives a value after new settings came into force or were rejected.
	Changed() <-chan struct{}
	// Conditions report whether the operator's latest settings are in force. The list is empty if
	// settings cannot change while the agent runs.
	Conditions() []metav1.Condition
}

// Offered holds the operator's settings for the offer: the description of the cluster, its prices,
// and how much it lends.
type Offered struct {
	// Topology is the cluster's location; nil if unknown.
	Topology *brokerv1alpha1.Topology
	// Cost, Labels and Claims describe the cluster. Nil ones are taken from the Advertisement object.
	Cost           *brokerv1alpha1.Cost
	Labels, Claims map[string]brokerv1alpha1.LabelValue
	// Rules define how much of the free capacity is lent.
	offering.Rules
}

// Options of a Reconciler. All but EndpointURL and Peers are required.
type Options struct {
	ClusterID   string
	ClusterName string
	// EndpointURL is the https address at which consumers reach this cluster's API server; "" if there is none.
	EndpointURL string
	// Settings provides the operator's settings, which may change at any time.
	Settings             Settings
	Name, Namespace      string
	InstructionNamespace string
	// Interval is the time between two advertisements while nothing changes. The broker may ask for a shorter one.
	Interval time.Duration
	// Peers probes the clusters that the broker asks about; nil disables probes.
	Peers Peers
	// Certificate returns the condition of the agent's certificate. Guarded returns the condition
	// Guarded: whether admission policies limit peers to their reservations. Liqo returns the
	// condition LiqoReady or, if the agent runs with --peering-mode=none, PeeringSkipped. All may
	// return nil.
	Certificate, Guarded, Liqo func(context.Context) *metav1.Condition
	// NoteJournal is called with the ID of the broker's journal after each advertisement.
	NoteJournal func(id string)
	Clock       clock.PassiveClock
}

// Reconciler publishes this cluster's offer. Its fields need no lock: only Reconcile uses them,
// for a single object. The exception is urgent, which is atomic.
type Reconciler struct {
	client    client.Client
	publisher Publisher
	accounts  Accounts
	recorder  events.EventRecorder
	options   Options
	// jitter varies a pause by 10 % in both directions, so that the agents of a fleet do not all
	// publish at the same time.
	jitter func(time.Duration) time.Duration

	missing, pending *prometheus.GaugeVec
	// epoch is a number that the broker assigns to this agent; 0 before the broker's first answer. It
	// distinguishes this agent's advertisements from those of its predecessors. sequence numbers the
	// advertisements.
	epoch, sequence int64

	// written is the offer that the Advertisement object contains, and generation is the object's
	// generation after that write. A higher generation means that another writer changed the object.
	written    *offer
	generation int64
	// published is the offer that the broker accepted last; nil before it has accepted one.
	published *offer
	// bound shortens advertisements that are too large. complete is the condition Complete for the
	// advertisement that the broker accepted last; nil before that.
	bound    bound
	complete *metav1.Condition
	// vacancies measures for how long virtual nodes have had no pods.
	vacancies vacancies
	// anchor is the newest position in the broker's journal that the broker has sent.
	anchor v1.Anchor
	// due is when to publish next even if nothing changes.
	due time.Time
	// looked is when Reconcile last computed the offer.
	looked time.Time
	// failures is the number of failed attempts to publish since the last success.
	failures int
	// ask is when to ask for the broker's version again. fits is the condition BrokerCompatible for
	// the version last reported; nil before the first report.
	ask  time.Time
	fits *metav1.Condition
	// urgent is set by a new probe result or new settings, until they are published.
	urgent atomic.Bool
}

// New returns a Reconciler.
func New(c client.Client, publisher Publisher, accounts Accounts, recorder events.EventRecorder, options Options) *Reconciler {
	return &Reconciler{
		client: c, publisher: publisher, accounts: accounts, recorder: recorder, options: options,
		jitter: func(d time.Duration) time.Duration { return wait.Jitter(d*9/10, 0.2) },
		missing: newGauge(prometheus.GaugeOpts{
			Name: "agent_reserved_capacity_missing", Help: "Reserved capacity that its reservations could not use now, in cores, bytes or units.",
		}),
		pending: newGauge(prometheus.GaugeOpts{
			Name: "agent_pending_requests", Help: "Requests of this cluster's own pods that the scheduler finds no node for, in cores, bytes or units.",
		}),
	}
}

// SetupWithManager registers the controller. It does not start accounts: the caller runs them.
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
		// Changes of the status are ignored, because this controller writes the status itself. The
		// operator may change the spec, for example a price, and agent uninstall sets an
		// annotation.
		For(&agentv1alpha1.Advertisement{}, builder.WithPredicates(ours, predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(instructions)).
		Watches(&agentv1alpha1.LendingPolicy{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(r.followAccounts)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// followAccounts enqueues the Advertisement whenever a total, the reachability of a peer or a
// setting changes. After a change of a total, it ignores further ones for minGap.
func (r *Reconciler) followAccounts(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	var news <-chan struct{} // nil never receives
	if r.options.Peers != nil {
		news = r.options.Peers.Changed()
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
			case <-r.options.Settings.Changed():
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

// Peers probes whether this cluster reaches the clusters that the broker asks about.
type Peers interface {
	// ProbePeers schedules probes.
	ProbePeers(peers []v1.Peer)
	// Unreported returns the results that the broker has not received yet.
	Unreported() []v1.Link
	// MarkReported drops results that the broker has received.
	MarkReported(links []v1.Link)
	// Changed receives a value when a result should be sent to the broker at once.
	Changed() <-chan struct{}
}

var _ Peers = (*reach.Scout)(nil)
