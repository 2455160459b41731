package capacity

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// runningPods makes the API server filter out pods that take no capacity. It reports a pod as
// deleted once the pod finishes.
const runningPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Watcher counts the resources of the cluster while it runs. It is safe for concurrent use and
// is a Runnable of a manager, on every replica.
type Watcher struct {
	nodes, running, unbound cache.ListerWatcher
	nodeLabels              []string
	// placeholders is the namespace of the pods that keep reserved capacity.
	placeholders string

	changed chan struct{}
	synced  chan struct{}

	// mu guards the following.
	mu       sync.Mutex
	accounts *accounts
	// lent holds the latest arguments of Lend, and listed those with which the known nodes were
	// listed. listAgain restarts the watch of nodes.
	lent, listed *lendable
	listAgain    context.CancelFunc
	nodesKnown   bool
	runningKnown bool
	unboundKnown bool
}

// New creates a Watcher of the cluster behind client. Node shapes are split by the labels with
// the given keys. A protobuf client saves most of the work of reading pods.
func New(client kubernetes.Interface, nodeLabels ...string) *Watcher {
	nodes := client.CoreV1().Nodes()
	return &Watcher{
		nodeLabels: nodeLabels,
		nodes: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return nodes.Watch(ctx, o)
			},
		}, client),
		running:  podsOf(client, runningPods),
		unbound:  podsOf(client, unboundPods),
		changed:  make(chan struct{}, 1),
		synced:   make(chan struct{}),
		accounts: newAccounts(),
		lent:     &lendable{nodes: labels.Everything()},
	}
}

// podsOf lists and watches the pods that match a field selector.
func podsOf(client kubernetes.Interface, selector string) cache.ListerWatcher {
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return pods.Watch(ctx, o)
		},
	}, client)
}

// PlaceholdersIn excludes the placeholder pods of a namespace from all figures, because the
// reservations count already. Call it before Start.
func (w *Watcher) PlaceholdersIn(namespace string) *Watcher {
	w.placeholders = namespace
	return w
}

// Lend restricts the nodes that count to those that match a selector and have no taints against
// ordinary pods but the offered ones. It keeps their labels with the given keys for Lent. It requests a new list of nodes and takes effect with that
// list. Other labels are dropped unless they are published.
func (w *Watcher) Lend(nodes labels.Selector, taints []brokerv1alpha1.Taint, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lent.nodes.String() == nodes.String() && slices.Equal(w.lent.taints, taints) && slices.Equal(w.lent.labels, keys) {
		return
	}
	w.lent = &lendable{nodes: nodes, taints: taints, labels: keys}
	if w.listAgain != nil {
		w.listAgain()
	}
}

// Start watches until ctx ends.
func (w *Watcher) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			w.watchNodes(ctx)
		}
	})
	running.Go(func() {
		podReflector(w, "running", w.running, &w.runningKnown, factsOfPod, w.accounts).RunWithContext(ctx)
	})
	running.Go(func() {
		podReflector(w, "unbound", w.unbound, &w.unboundKnown, demandOf, w.accounts.pending).RunWithContext(ctx)
	})
	running.Wait()
	return nil
}

// NeedLeaderElection is false: every replica counts, so that a new leader can advertise at
// once.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Synced is closed once all nodes and pods have been counted. A Snapshot taken before is
// incomplete.
func (w *Watcher) Synced() <-chan struct{} { return w.synced }

// Changed receives after figures have changed; several changes may be merged. It has one
// reader.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Snapshot returns the state of the accounts.
func (w *Watcher) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.newSnapshot()
}

// Layout returns what is free on which nodes, and which pods run.
func (w *Watcher) Layout() Layout {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.newLayout()
}

// Fits reports whether a request fits into the capacity that no pod of this cluster has
// requested. It does not subtract capacity held for placements that do not use it yet.
func (w *Watcher) Fits(request quantity.Amounts) (quantity.Shortage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.fitsFree(request)
}

// Unaccepted counts the pods that were bound to a node before an instant and that the node has not
// accepted. On a virtual node these have no copy at the provider. It also returns the namespace
// and name of the pod that waits longest.
func (w *Watcher) Unaccepted(nodeName string, before time.Time) (count int, longest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.accounts.nodes[nodeName]; n != nil {
		return n.waitingSince(before.Unix())
	}
	return 0, ""
}

// Room returns the capacity that pods can still request on each of the given nodes that count,
// without counting placeholders.
func (w *Watcher) Room(nodes []string) map[string]quantity.Amounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := map[string]quantity.Amounts{}
	for _, name := range nodes {
		if n, ok := w.accounts.nodes[name]; ok && n.facts.counts {
			room[name] = n.freeAmounts()
		}
	}
	return room
}

// watchNodes watches until ctx ends or Lend changes the nodes.
func (w *Watcher) watchNodes(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	lent := w.lent
	w.listAgain = cancel
	w.mu.Unlock()
	w.nodeReflector(lent).RunWithContext(ctx)
}

func (w *Watcher) nodeReflector(lent *lendable) *cache.Reflector {
	return cache.NewReflectorWithOptions(w.nodes, &corev1.Node{}, &sink[nodeFacts]{
		trim: trimNode(w.nodeLabels, lent),
		set: func(t trimmed[nodeFacts]) {
			w.applyEvent(func() bool { return w.accounts.setNode(t.name, t.facts) })
		},
		remove: func(t trimmed[nodeFacts]) {
			w.applyEvent(func() bool { return w.accounts.removeNode(t.name) })
		},
		replace: func(all []trimmed[nodeFacts]) {
			facts := make(map[string]nodeFacts, len(all))
			for _, t := range all {
				facts[t.name] = t.facts
			}
			w.applyEvent(func() bool {
				w.nodesKnown, w.listed = true, lent
				return w.accounts.replaceNodes(facts)
			})
		},
	}, cache.ReflectorOptions{Name: "capacity/nodes"})
}

// podAccounts receives the pods of one watch. Each call reports whether anything changed.
type podAccounts[F any] interface {
	setPod(podKey, F) bool
	removePod(podKey) bool
	replacePods(map[podKey]F) bool
}

// podReflector passes pods to the accounts, and sets known after the first full list.
func podReflector[F any](w *Watcher, name string, from cache.ListerWatcher, known *bool, factsOf func(*corev1.Pod) F, to podAccounts[F]) *cache.Reflector {
	return cache.NewReflectorWithOptions(from, &corev1.Pod{}, &sink[F]{
		trim:   trimPod(w.placeholders, factsOf),
		set:    func(t trimmed[F]) { w.applyEvent(func() bool { return to.setPod(t.key, t.facts) }) },
		remove: func(t trimmed[F]) { w.applyEvent(func() bool { return to.removePod(t.key) }) },
		replace: func(all []trimmed[F]) {
			facts := make(map[podKey]F, len(all))
			for _, t := range all {
				facts[t.key] = t.facts
			}
			w.applyEvent(func() bool {
				*known = true
				return to.replacePods(facts)
			})
		},
	}, cache.ReflectorOptions{Name: "capacity/pods/" + name})
}

// applyEvent applies one event. It signals no change before everything has been counted once.
func (w *Watcher) applyEvent(event func() bool) {
	w.mu.Lock()
	before := w.isComplete()
	changed := event()
	after := w.isComplete()
	w.mu.Unlock()

	if after && !before {
		close(w.synced)
	}
	if !after || (before && !changed) {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *Watcher) isComplete() bool { return w.nodesKnown && w.runningKnown && w.unboundKnown }
