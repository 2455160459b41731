package capacity

import (
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
