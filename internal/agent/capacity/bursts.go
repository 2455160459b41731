package capacity

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// untilListedAgain is the least time between two lists of the pods without a node, which users cause when they edit
// BurstPolicies.
const untilListedAgain = time.Second

// bursts is the state that the Watcher keeps for BurstPolicies.
type bursts struct {
	// policies holds the latest argument of SelectBursts. listAgain restarts the watch of the pods
	// without a node, because their kinds depend on the policies.
	policies  []burst.Selection
	listAgain context.CancelFunc
	// policiesChanged and nodesChanged are the results of the next call of TakeBurstChanges.
	policiesChanged map[types.NamespacedName]struct{}
	nodesChanged    map[string]struct{}
	changed         chan struct{}
}

func newBursts() bursts {
	return bursts{policiesChanged: map[types.NamespacedName]struct{}{}, nodesChanged: map[string]struct{}{}, changed: make(chan struct{}, 1)}
}

// SelectBursts sets the policies for which unschedulable pods are counted by kind. If they differ
// from those of the last call, it lists the pods without a node again. Without policies, no kinds
// are counted.
func (w *Watcher) SelectBursts(policies []burst.Selection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	policies = slices.SortedFunc(slices.Values(policies), func(a, b burst.Selection) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if len(policies) == len(w.bursts.policies) && (len(policies) == 0 || reflect.DeepEqual(policies, w.bursts.policies)) {
		return
	}
	w.bursts.policies = policies
	w.accounts.pending.changed = w.noteKind
	if len(policies) == 0 {
		w.accounts.pending.changed = nil
	}
	if w.bursts.listAgain != nil {
		w.bursts.listAgain()
	}
}

// BurstsChanged returns a channel that receives a value when TakeBurstChanges has something new. It
// must have only one reader.
func (w *Watcher) BurstsChanged() <-chan struct{} { return w.bursts.changed }

// TakeBurstChanges returns the policies whose waiting pods have changed, and the virtual nodes whose
// pods have changed, since the last call.
func (w *Watcher) TakeBurstChanges() (policies []types.NamespacedName, nodes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	policies = slices.Collect(maps.Keys(w.bursts.policiesChanged))
	nodes = slices.Collect(maps.Keys(w.bursts.nodesChanged))
	clear(w.bursts.policiesChanged)
	clear(w.bursts.nodesChanged)
	return policies, nodes
}

// noteKind records that the pods of a kind have changed. The caller holds mu.
func (w *Watcher) noteKind(k *burst.Kind) {
	w.bursts.policiesChanged[types.NamespacedName{Namespace: k.Namespace, Name: k.Policy}] = struct{}{}
	w.signalBursts()
}

// noteNode records that the pods of a reservation's virtual node may have changed. It skips other
// nodes, and all nodes while there are no policies. The caller holds mu.
func (w *Watcher) noteNode(name string) {
	if len(w.bursts.policies) > 0 && isReserved(name) {
		w.bursts.nodesChanged[name] = struct{}{}
		w.signalBursts()
	}
}

func (w *Watcher) signalBursts() {
	select {
	case w.bursts.changed <- struct{}{}:
	default:
	}
}

// Waiting returns the unschedulable pods that a BurstPolicy selects, by kind and size. Its cost
// grows with the number of kinds, sizes and different starting times, not with the number of pods.
func (w *Watcher) Waiting(policy types.NamespacedName) []burst.Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []burst.Waiting
	for _, c := range w.accounts.pending.crowds {
		if c.kind == nil || c.kind.Namespace != policy.Namespace || c.kind.Policy != policy.Name {
			continue
		}
		shape := quantity.Amounts{}
		c.addTo(shape, +1)
		oldest := slices.Min(slices.Collect(maps.Keys(c.since)))
		one := burst.Waiting{Kind: *c.kind, Shape: shape, Pods: int64(c.pods), Oldest: time.Unix(oldest, 0)}
		for key, name := range c.examples {
			one.Examples = append(one.Examples, burst.Pod{Name: name, UID: uuid.UUID(key).String()})
		}
		out = append(out, one)
	}
	return out
}

func (w *Watcher) watchUnbound(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	policies := w.bursts.policies
	w.bursts.listAgain = cancel
	w.mu.Unlock()
	w.unboundReflector(policies).RunWithContext(ctx)
}

func (w *Watcher) unboundReflector(policies []burst.Selection) *cache.Reflector {
	facts := func(pod *corev1.Pod) *wish { return demandOf(pod, policies) }
	return podReflector(w, "unbound", w.unbound, &w.unboundKnown, facts, w.accounts.pending)
}

// runningAccounts passes the pods that have a node to the accounts, and records the nodes whose
// pods changed, for TakeBurstChanges.
type runningAccounts struct {
	*accounts
	w *Watcher
}

// setPod records a pod that has a node. It removes the pod from the unschedulable ones, because the
// other watch may report the binding later and the pod would count twice until then.
func (r runningAccounts) setPod(key podKey, facts podFacts) bool {
	changed := false
	if facts.node != "" && r.pending.removePod(key) {
		changed = true
	}
	if old, ok := r.pods[key]; ok && old.node.name != facts.node {
		r.w.noteNode(old.node.name)
	}
	moved := r.accounts.setPod(key, facts)
	if moved {
		r.w.noteNode(facts.node)
	}
	return moved || changed
}

func (r runningAccounts) removePod(key podKey) bool {
	if old, ok := r.pods[key]; ok {
		r.w.noteNode(old.node.name)
	}
	return r.accounts.removePod(key)
}

func (r runningAccounts) replacePods(facts map[podKey]podFacts) bool {
	for name := range r.nodes {
		r.w.noteNode(name)
	}
	return r.accounts.replacePods(facts)
}
