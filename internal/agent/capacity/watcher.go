package capacity

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// runningPods leaves pods that take no capacity to the API server: one that
// finishes is reported as deleted.
const runningPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Watcher keeps account of the cluster while it runs. It is safe for concurrent
// use and is a Runnable of a manager, on every replica.
type Watcher struct {
	nodes, running, unbound cache.ListerWatcher
	nodeLabels              []string
	// placeholders is the namespace of pods that stand in for reserved capacity.
	placeholders string

	changed chan struct{}
	synced  chan struct{}

	// mu guards the following.
	mu       sync.Mutex
	accounts *accounts
	// lent is what Lend asked for last, and listed what the nodes that are known were
	// listed for; listAgain, once they are watched, begins anew with all of them.
	lent, listed *lendable
	listAgain    context.CancelFunc
	nodesKnown   bool
	runningKnown bool
	unboundKnown bool
}

// New makes a Watcher of the cluster behind client, which tells nodes apart by the
// labels with these keys. A client that speaks protobuf saves most of the work of
// reading pods.
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

// podsOf a cluster that its API server selects by their fields.
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

// PlaceholdersIn leaves pods of a namespace that stand in for reserved capacity out of
// all figures: what is reserved is accounted for as such. It is called before Start.
func (w *Watcher) PlaceholdersIn(namespace string) *Watcher {
	w.placeholders = namespace
	return w
}

// Lend has only nodes count that a selector matches, and keeps their labels with these
// keys for Lent, from the next list of nodes on, which it asks for. No other label of a
// node is kept that is not shown.
func (w *Watcher) Lend(nodes labels.Selector, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lent.nodes.String() == nodes.String() && slices.Equal(w.lent.labels, keys) {
		return
	}
	w.lent = &lendable{nodes: nodes, labels: keys}
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

// NeedLeaderElection lets every replica keep account, so that a new leader can
// advertise at once.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Synced is closed once all nodes and pods have been counted. Until then a
// Snapshot is of no use.
func (w *Watcher) Synced() <-chan struct{} { return w.synced }

// Changed receives after figures have changed, once for any number of changes.
// It has one reader.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Snapshot returns the state of the accounts.
func (w *Watcher) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.snapshot()
}

// Fits reports whether a request fits into what no pod of this cluster has
// claimed, whomever it runs for. It does not know what is held for placements
// that do not use it yet.
func (w *Watcher) Fits(request quantity.Amounts) (quantity.Shortage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.fits(request)
}

// Rejected is how many pods on a virtual node the provider does not take.
func (w *Watcher) Rejected(nodeName string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.accounts.nodes[nodeName]; n != nil {
		return n.rejected
	}
	return 0
}

// Room is what pods can still request on each of the nodes that count, placeholders not
// counted.
func (w *Watcher) Room(nodes []string) map[string]quantity.Amounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	room := map[string]quantity.Amounts{}
	for _, name := range nodes {
		if n, ok := w.accounts.nodes[name]; ok && n.facts.counts {
			room[name] = n.room()
		}
	}
	return room
}

// watchNodes until other nodes are to be lent.
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
			w.tell(func() bool { return w.accounts.setNode(t.name, t.facts) })
		},
		remove: func(t trimmed[nodeFacts]) {
			w.tell(func() bool { return w.accounts.removeNode(t.name) })
		},
		replace: func(all []trimmed[nodeFacts]) {
			facts := make(map[string]nodeFacts, len(all))
			for _, t := range all {
				facts[t.name] = t.facts
			}
			w.tell(func() bool {
				w.nodesKnown, w.listed = true, lent
				return w.accounts.replaceNodes(facts)
			})
		},
	}, cache.ReflectorOptions{Name: "capacity/nodes"})
}

// podAccounts are told what becomes of the pods of one watch. Each call reports whether
// anything changed.
type podAccounts[F any] interface {
	setPod(podKey, F) bool
	removePod(podKey) bool
	replacePods(map[podKey]F) bool
}

// podReflector tells accounts of what it reads, and sets known once that is everything.
func podReflector[F any](w *Watcher, name string, from cache.ListerWatcher, known *bool, factsOf func(*corev1.Pod) F, to podAccounts[F]) *cache.Reflector {
	return cache.NewReflectorWithOptions(from, &corev1.Pod{}, &sink[F]{
		trim:   trimPod(w.placeholders, factsOf),
		set:    func(t trimmed[F]) { w.tell(func() bool { return to.setPod(t.key, t.facts) }) },
		remove: func(t trimmed[F]) { w.tell(func() bool { return to.removePod(t.key) }) },
		replace: func(all []trimmed[F]) {
			facts := make(map[podKey]F, len(all))
			for _, t := range all {
				facts[t.key] = t.facts
			}
			w.tell(func() bool {
				*known = true
				return to.replacePods(facts)
			})
		},
	}, cache.ReflectorOptions{Name: "capacity/pods/" + name})
}

// tell passes on one event. Nothing is reported before everything was counted
// once.
func (w *Watcher) tell(event func() bool) {
	w.mu.Lock()
	before := w.known()
	changed := event()
	after := w.known()
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

func (w *Watcher) known() bool { return w.nodesKnown && w.runningKnown && w.unboundKnown }
