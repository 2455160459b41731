package capacity

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// lendable is which nodes are lent, and which of their labels are kept.
type lendable struct {
	nodes  labels.Selector
	labels []string
}

// LentNode is a node that counts. Its parts are not to be changed.
type LentNode struct {
	Name        string
	Allocatable quantity.Amounts
	// Labels are those whose keys Lend named; nil if it has none of them.
	Labels map[string]string
}

// Lent lists the nodes that count, in no order, and the revision that they are of, which
// is another one after a node changed. There is no list where that revision has been seen,
// and revision 0 while the nodes are not known yet as Lend wants them last.
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

// Lendable says which nodes of this cluster may run pods of others, whether they are Ready
// and schedulable now or not.
type Lendable struct {
	// Nodes is what Lend selects.
	Nodes labels.Selector
	// ControlPlanes is true where a node that is labelled as part of the control plane takes
	// ordinary pods.
	ControlPlanes bool
	// Barred are the other nodes that take no ordinary pods, sorted.
	Barred []string
}

// Lendable reads the nodes; ok is false while they are not known.
func (w *Watcher) Lendable() (l Lendable, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.nodesKnown {
		return Lendable{}, false
	}
	l.Nodes = w.lent.nodes
	for _, n := range w.accounts.nodes {
		l.ControlPlanes = l.ControlPlanes || n.known && n.facts.ours && n.facts.controlPlane && !n.facts.barred
	}
	for name, n := range w.accounts.nodes {
		if n.known && n.facts.ours && n.facts.barred && (l.ControlPlanes || !n.facts.controlPlane) {
			l.Barred = append(l.Barred, name)
		}
	}
	slices.Sort(l.Barred)
	return l, true
}
