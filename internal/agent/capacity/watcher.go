package capacity

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// runningPods is a field selector for pods that take capacity. When a pod finishes, a watch with
// this selector reports it as deleted.
const runningPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Watcher counts the resources of the cluster while it runs. It is safe for concurrent use.
type Watcher struct {
	nodes, running, unbound cache.ListerWatcher
	nodeLabels              []string
	// placeholders is the namespace of the placeholder pods, which keep reserved capacity.
	placeholders string

	changed chan struct{}
	synced  chan struct{}

	// mu protects the fields below.
	mu       sync.Mutex
	accounts *accounts
	// lent holds the latest arguments of Lend. listed holds the arguments with which the known nodes
	// were read. listAgain restarts the watch of nodes.
	lent, listed *lendable
	listAgain    context.CancelFunc
	nodesKnown   bool
	runningKnown bool
	unboundKnown bool
	bursts       bursts
}

// New creates a Watcher of the cluster to which client connects. nodeLabels are the keys of the
// node labels that are part of node shapes. client should use protobuf, with which reading pods
// costs much less.
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
		bursts:   newBursts(),
	}
}

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

// PlaceholdersIn excludes the placeholder pods in a namespace from all totals, because the reserved
// capacity that they keep is already counted. Call it before Start.
func (w *Watcher) PlaceholdersIn(namespace string) *Watcher {
	w.placeholders = namespace
	return w
}

// Lend sets which nodes count: those that match the selector, and whose taints against ordinary
// pods are all among the given taints. groups are the labels of groups of nodes: Snapshot counts the
// nodes of each group, and the labels become part of node shapes. keys are the keys of the node labels
// that Lent returns. Lend restarts the watch of nodes if an argument has changed, and takes effect once the nodes have been
// listed again.
func (w *Watcher) Lend(nodes labels.Selector, taints []brokerv1alpha1.Taint, groups []map[string]string, keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lent.nodes.String() == nodes.String() && slices.Equal(w.lent.taints, taints) && slices.Equal(w.lent.labels, keys) && slices.EqualFunc(w.lent.groups, groups, maps.Equal) {
		return
	}
	w.lent = &lendable{nodes: nodes, taints: taints, labels: keys, groups: groups}
	if w.listAgain != nil {
		w.listAgain()
	}
}

// Start counts until ctx ends.
func (w *Watcher) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			w.watchNodes(ctx)
		}
	})
	running.Go(func() {
		podReflector(w, "running", w.running, &w.runningKnown, factsOfPod, runningAccounts{w.accounts, w}).RunWithContext(ctx)
	})
	running.Go(func() { wait.UntilWithContext(ctx, w.watchUnbound, untilListedAgain) })
	running.Wait()
	return nil
}

// NeedLeaderElection returns false: every replica counts, so that a new leader can advertise at once.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Synced returns a channel that is closed once all nodes and pods have been counted. A Snapshot
// taken before that is incomplete.
func (w *Watcher) Synced() <-chan struct{} { return w.synced }

// Changed returns a channel that receives a value after totals have changed; one value may announce
// several changes. The channel must have only one reader.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Snapshot returns the current totals.
func (w *Watcher) Snapshot() Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.accounts.newSnapshot()
	if w.listed != nil && len(w.listed.groups) > 0 {
		perGroup := make([]int64, len(w.listed.groups)+1)
		for _, n := range w.accounts.nodes {
			if n.facts.ours {
				perGroup[n.facts.group]++
			}
		}
		out.Groups, out.NodesPerGroup = w.listed.groups, perGroup[1:]
	}
	return out
}

// Layout returns the free capacity of the nodes and the requests of the placements' pods.
func (w *Watcher) Layout() Layout {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.newLayout()
}

// Fits reports whether a request fits into the capacity that no pod requests, and which resource is
// short if not. It does not subtract reserved capacity that is still unused.
func (w *Watcher) Fits(request quantity.Amounts) (quantity.Shortage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts.fitsFree(request)
}

// Unaccepted returns how many pods were bound to a node before an instant and are still not
// accepted by it. On a virtual node, these are pods that do not run at the provider. It also
// returns the namespace and name of the pod that has waited longest.
func (w *Watcher) Unaccepted(nodeName string, before time.Time) (count int, longest string) {
	return w.waitingOn(nodeName, before, false)
}

// Unplaced returns how many accepted pods of a virtual node have waited since before an instant
// because no node of the provider can take them, and the pod that has waited longest.
func (w *Watcher) Unplaced(nodeName string, before time.Time) (count int, longest string) {
	return w.waitingOn(nodeName, before, true)
}

// Runs reports whether a node has accepted a pod and, if it is a virtual node, the provider has a
// node for it.
func (w *Watcher) Runs(nodeName string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.accounts.nodes[nodeName]
	return n != nil && n.pods > len(n.waiting)
}

func (w *Watcher) waitingOn(nodeName string, before time.Time, unplaced bool) (count int, longest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.accounts.nodes[nodeName]; n != nil {
		return n.waitingSince(before.Unix(), unplaced)
	}
	return 0, ""
}

// Room returns, for each of the given nodes that counts, how much pods can still request on it.
// Placeholders count as if they requested nothing.
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
	shown := lent.shownKeys(w.nodeLabels)
	return cache.NewReflectorWithOptions(w.nodes, &corev1.Node{}, &sink[*corev1.Node, nodeFacts]{
		factsOf: func(n *corev1.Node) nodeFacts { return factsOfNode(n, shown, lent) },
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

// podAccounts receives the pods of one watch. Each method reports whether anything changed.
type podAccounts[F any] interface {
	setPod(podKey, F) bool
	removePod(podKey) bool
	replacePods(map[podKey]F) bool
}

// podReflector returns a reflector that passes the pods of one watch to the accounts. It sets known
// after the first full list.
func podReflector[F any](w *Watcher, name string, from cache.ListerWatcher, known *bool, factsOf func(*corev1.Pod) F, to podAccounts[F]) *cache.Reflector {
	return cache.NewReflectorWithOptions(from, &corev1.Pod{}, &sink[*corev1.Pod, F]{
		factsOf: func(p *corev1.Pod) (none F) {
			if p.Namespace == w.placeholders && p.Labels[agentv1alpha1.PlaceholderLabel] != "" {
				return none
			}
			return factsOf(p)
		},
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

// applyEvent signals nothing before all nodes and pods have been counted.
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

// Guests says how many pods of workloads are on a node. Finished pods, mirror pods and pods of DaemonSets
// do not count.
type Guests struct {
	// Now is the number of these pods on the node. Came is how many have come since the node was first seen: it reveals
	// a pod that came and went between two calls.
	Now  int
	Came uint64
}

// GuestsOn counts the pods of workloads on a node. It returns false if the node is not known or the pods have not been
// counted yet.
func (w *Watcher) GuestsOn(name string) (Guests, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.accounts.nodes[name]
	if n == nil || !n.known || !w.runningKnown {
		return Guests{}, false
	}
	return Guests{n.guests, n.came}, true
}

// OwnRequestsOn returns the sum of the requests of this cluster's own pods on a node, including pods of DaemonSets.
func (w *Watcher) OwnRequestsOn(name string) quantity.Amounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.accounts.nodes[name]
	if n == nil {
		return nil
	}
	return n.own.Clone()
}
