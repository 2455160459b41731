// Package burstpolicy carries out BurstPolicies: it creates ResourceRequests for unschedulable pods,
// enlarges them, and ends those that no pod uses.
package burstpolicy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// +kubebuilder:rbac:groups=liqo.io,resources=burstpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=burstpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Pods counts the pods of this cluster. capacity.Watcher implements it.
type Pods interface {
	// Synced returns a channel that is closed once all pods are counted.
	Synced() <-chan struct{}
	// SelectBursts sets the policies by which unschedulable pods are counted.
	SelectBursts([]burst.Selection)
	// Waiting returns the unschedulable pods that a policy selects.
	Waiting(policy types.NamespacedName) []burst.Waiting
	// GuestsOn returns the pods of workloads on a virtual node, and false if they are not known.
	GuestsOn(nodeName string) (capacity.Guests, bool)
	// OwnRequestsOn returns the sum of the requests of the pods on a virtual node.
	OwnRequestsOn(nodeName string) quantity.Amounts
	// BurstsChanged returns a channel that receives a value when TakeBurstChanges has something new.
	BurstsChanged() <-chan struct{}
	// TakeBurstChanges returns the policies and virtual nodes whose pods have changed.
	TakeBurstChanges() (policies []types.NamespacedName, nodes []string)
}

// Options of the controller. All but Settle and Barred are required.
type Options struct {
	Pods Pods
	// Reader reads from the API server. It is used for the pods on a node that is about to be removed, because a cache
	// could miss a new pod.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.Clock
	// Settle is how long changes of pods are collected before the affected policies are reconciled; 2 s by default.
	Settle time.Duration
	// Barred lists the namespaces that the agent's webhook for new pods leaves out.
	Barred []string
}

// Reconciler carries out BurstPolicies. Only one Reconcile may run at a time.
type Reconciler struct {
	client  client.Client
	options Options
	idle    burst.IdleClock
	// told holds, for each policy, the events that were recorded on skipped pods, so that no event is recorded twice.
	told map[types.NamespacedName]map[skipEvent]bool
	// known has, for each policy, the IDs of its requests in idle, so that idle can forget deleted requests.
	known map[types.NamespacedName][]string
	// refused has, for each policy, and group or name of a request, the last change that the API server refused. After a
	// restart of the agent it is tried once more.
	refused map[types.NamespacedName]map[string]refusal
}

// refusal is a change of a request that the API server refused.
type refusal struct {
	until time.Time
	why   string
}

// skipEvent identifies an event: the UID of the pod, and why the policy skips the pod.
type skipEvent struct {
	uid  string
	skip burst.Skip
}

// New returns a Reconciler. Settings that options leave empty get their defaults.
func New(c client.Client, options Options) *Reconciler {
	if options.Settle <= 0 {
		options.Settle = 2 * time.Second
	}
	return &Reconciler{client: c, options: options, told: map[types.NamespacedName]map[skipEvent]bool{}, known: map[types.NamespacedName][]string{}, refused: map[types.NamespacedName]map[string]refusal{}}
}

// SetupWithManager registers the controller with a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("burstpolicy").
		For(&agentv1alpha1.BurstPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&agentv1alpha1.ResourceRequest{}).
		// The label BurstNamespaceLabel decides whether a policy is Ready.
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.policiesIn), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.policiesOfNode), builder.WithPredicates(nodeChanged())).
		WatchesRawSource(source.Func(r.followPods)).
		Complete(r)
}

// nodeChanged passes new and deleted nodes, changes of labels, and every change of a virtual node that is not labelled
// with a policy yet.
func nodeChanged() predicate.Predicate {
	return predicate.Or(predicate.LabelChangedPredicate{}, predicate.NewPredicateFuncs(func(o client.Object) bool {
		node, ok := o.(*corev1.Node)
		return ok && node.Labels[agentv1alpha1.RequestLabel] != "" && node.Labels[agentv1alpha1.BurstLabel] == ""
	}))
}

func (r *Reconciler) policiesIn(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.policiesOf(ctx, ns.GetName())
}

func (r *Reconciler) policiesOfNode(ctx context.Context, node client.Object) []reconcile.Request {
	if namespace := node.GetLabels()[agentv1alpha1.RequestNamespaceLabel]; namespace != "" {
		return r.policiesOf(ctx, namespace)
	}
	return nil
}

func (r *Reconciler) policiesOf(ctx context.Context, namespace string) []reconcile.Request {
	var list agentv1alpha1.BurstPolicyList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil // reading from the cache fails only while the manager stops
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return out
}

// followPods enqueues the policies whose waiting pods, or whose pods on virtual nodes, have changed. It collects
// changes for Options.Settle, so that a thousand new pods cause one reconcile.
func (r *Reconciler) followPods(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.options.Pods.BurstsChanged():
			}
			select {
			case <-ctx.Done():
				return
			case <-r.options.Clock.After(r.options.Settle):
			}
			policies, nodes := r.options.Pods.TakeBurstChanges()
			for _, name := range policies {
				queue.Add(reconcile.Request{NamespacedName: name})
			}
			for _, name := range nodes {
				node := &corev1.Node{}
				if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err == nil && node.Labels[agentv1alpha1.BurstLabel] != "" {
					queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{
						Namespace: node.Labels[agentv1alpha1.RequestNamespaceLabel], Name: node.Labels[agentv1alpha1.BurstLabel],
					}})
				}
			}
		}
	}()
	return nil
}
