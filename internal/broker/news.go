package broker

import (
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// news is what changed for one cluster, oldest first. A reservation that changed
// again leaves an old entry behind, which is skipped and now and then swept out.
type news struct {
	entries []newsEntry
	live    map[string]struct{}
	// changed is closed and replaced with every entry.
	changed chan struct{}
}

type newsEntry struct {
	position uint64
	name     string
}

func (t *term) newsOf(clusterID string) *news {
	n := t.news[clusterID]
	if n == nil {
		n = &news{live: map[string]struct{}{}, changed: make(chan struct{})}
		t.news[clusterID] = n
	}
	return n
}

func (n *news) add(r *ledger.Reservation, state *ledger.State) {
	n.sweep(state)
	n.entries = append(n.entries, newsEntry{r.Changed, r.Name})
	n.live[r.Name] = struct{}{}
	close(n.changed)
	n.changed = make(chan struct{})
}

// since returns the reservations that changed after a position, oldest change first.
func (n *news) since(position uint64, state *ledger.State) []*ledger.Reservation {
	from, _ := slices.BinarySearchFunc(n.entries, position, func(e newsEntry, p uint64) int {
		if e.position <= p {
			return -1
		}
		return 1
	})
	var out []*ledger.Reservation
	for _, e := range n.entries[from:] {
		if r := state.Reservation(e.name); r != nil && r.Changed == e.position {
			out = append(out, r)
		}
	}
	return out
}

// sweep keeps the log at most about half as long again as what it speaks of, also that
// of a cluster that never asks.
func (n *news) sweep(state *ledger.State) {
	if len(n.entries) < len(n.live)+len(n.live)/2+16 {
		return
	}
	clear(n.live)
	n.entries = slices.DeleteFunc(n.entries, func(e newsEntry) bool {
		r := state.Reservation(e.name)
		if r == nil || r.Changed != e.position {
			return true
		}
		n.live[e.name] = struct{}{}
		return false
	})
}
