package capacity

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// lendable holds the arguments of Lend: which nodes are lent, which of their labels are kept, and
// the labels of groups of nodes.
type lendable struct {
	nodes  labels.Selector
	taints []brokerv1alpha1.Taint
	labels []string
	groups []map[string]string
}

func (l *lendable) groupOf(node map[string]string) int {
	for i, group := range l.groups {
		if labels.Set(group).AsSelectorPreValidated().Matches(labels.Set(node)) {
			return i + 1
		}
	}
	return 0
}

// shownKeys returns the keys of the labels in node shapes: the given ones, and those of the groups.
func (l *lendable) shownKeys(given []string) []string {
	for _, group := range l.groups {
		given = slices.Concat(given, slices.Sorted(maps.Keys(group)))
	}
	return slices.Compact(slices.Sorted(slices.Values(given)))
}

// LentNode is a node that counts (see the package comment), so that its capacity is lent. Its maps
// are shared: do not modify them.
type LentNode struct {
	Name        string
	Allocatable quantity.Amounts
	// Labels are the labels of the node whose keys were passed to Lend; nil if it has none of them.
	Labels map[string]string
}

// Lent returns the nodes that count (see the package comment), in no particular order, and the
// revision of this list. The revision increases whenever a node changes. If the revision still
// equals seen, nodes is nil. The revision is 0 until the nodes have been listed with the latest
// arguments of Lend.
func (w *Watcher) Lent(seen int64) (nodes []LentNode, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listed != w.lent {
		return nil, 0
	}
	if w.accounts.revision == seen {
		return nil, seen
	}
	for name, n := range w.accounts.nodes {
		if n.facts.counts {
			nodes = append(nodes, LentNode{Name: name, Allocatable: n.facts.allocatable, Labels: n.facts.kept})
		}
	}
	return nodes, w.accounts.revision
}

// Lendable describes which nodes of this cluster may run pods of other clusters, whether or not
// they are Ready and schedulable now.
type Lendable struct {
	// Nodes is the selector of nodes that was passed to Lend.
	Nodes labels.Selector
	// ControlPlanes is true if at least one control-plane node accepts ordinary pods.
	ControlPlanes bool
	// Barred holds, sorted, the names of nodes that are not lent because they have a taint against
	// ordinary pods that Kubernetes did not set itself. For a control-plane node, this may be any
	// taint; for other nodes, only taints that are not in Taints count. Control-plane nodes are listed
	// only if ControlPlanes is true. Nodes that keep pods of consumers off by themselves are not
	// listed: every pod of a consumer carries this list.
	Barred []string
	// Taints are the taints that are offered to requests that tolerate them.
	Taints []brokerv1alpha1.Taint
}

// Lendable describes the nodes that this cluster lends. ok is false until the nodes have been
// listed.
func (w *Watcher) Lendable() (l Lendable, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.nodesKnown {
		return Lendable{}, false
	}
	l.Nodes, l.Taints = w.lent.nodes, w.lent.taints
	for _, n := range w.accounts.nodes {
		l.ControlPlanes = l.ControlPlanes || n.known && n.facts.ours && n.facts.controlPlane && !n.facts.barred
	}
	for name, n := range w.accounts.nodes {
		if n.known && n.facts.ours && n.facts.barred && !n.facts.repels && (l.ControlPlanes || !n.facts.controlPlane) {
			l.Barred = append(l.Barred, name)
		}
	}
	slices.Sort(l.Barred)
	return l, true
}
