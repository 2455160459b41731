package capacity

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// lendable defines which nodes are lent, and which of their labels are kept.
type lendable struct {
	nodes  labels.Selector
	taints []brokerv1alpha1.Taint
	labels []string
}

// LentNode is a node that counts. Do not modify its parts.
type LentNode struct {
	Name        string
	Allocatable quantity.Amounts
	// Labels are the ones that Lend asks for; nil if the node has none of them.
	Labels map[string]string
}

// Lent lists the nodes that count, in no order, with their revision. The revision changes
// whenever a node changes. The list is nil if seen is the current revision. The revision is 0
// until the nodes have been listed with the latest arguments of Lend.
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

// Lendable describes which nodes of this cluster may run pods of other clusters. It does not
// depend on whether they are Ready and schedulable now.
type Lendable struct {
	// Nodes is the selector passed to Lend.
	Nodes labels.Selector
	// ControlPlanes is true if a node labelled as part of the control plane accepts ordinary
	// pods.
	ControlPlanes bool
	// Barred are the other nodes with a taint that somebody set against ordinary pods and that is
	// not offered, sorted.
	Barred []string
	// Taints are the offered ones.
	Taints []brokerv1alpha1.Taint
}

// Lendable describes the nodes that this cluster lends; ok is false until the nodes are known.
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
		if n.known && n.facts.ours && n.facts.barred && (l.ControlPlanes || !n.facts.controlPlane) {
			l.Barred = append(l.Barred, name)
		}
	}
	slices.Sort(l.Barred)
	return l, true
}
