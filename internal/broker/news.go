package broker

import (
	"iter"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// news is what changed for one cluster, oldest first. A reservation that changed
// again leaves an old entry behind, which is skipped and now and then swept out.
type news struct {
	entries []newsEntry
	// changed is closed and replaced with every entry.
	changed chan struct{}
}

type newsEntry struct {
	position uint64
	name     string
}

func (t *session) newsOf(clusterID string) *news {
	n := t.news[clusterID]
	if n == nil {
		n = &news{changed: make(chan struct{})}
		t.news[clusterID] = n
	}
	return n
}

// reservationChanged adds a reservation to the news of every cluster that takes part in it.
func (t *session) reservationChanged(r *ledger.Reservation) {
	t.newsOf(r.Requester).add(r, t.book)
	for i := range r.Placements {
		if p := r.Placements[i].Provider; p != r.Requester {
			t.newsOf(p).add(r, t.book)
		}
	}
}

func (n *news) add(r *ledger.Reservation, state *ledger.State) {
	if len(n.entries) == cap(n.entries) {
		n.sweep(state)
	}
	entry := newsEntry{r.Changed, r.Name}
	if last := len(n.entries) - 1; last >= 0 && n.entries[last] == entry {
		return // it has two placements here
	}
	n.entries = append(n.entries, entry)
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
	return slices.Collect(n.told(from, state))
}

// all are the reservations in which the cluster takes part, oldest change first.
func (n *news) all(state *ledger.State) iter.Seq[*ledger.Reservation] { return n.told(0, state) }

// told are the reservations that the entries from one on are about, each once.
func (n *news) told(from int, state *ledger.State) iter.Seq[*ledger.Reservation] {
	return func(yield func(*ledger.Reservation) bool) {
		for _, e := range n.entries[from:] {
			if r := e.of(state); r != nil && !yield(r) {
				return
			}
		}
	}
}

// of is the reservation that an entry is about, nil if it changed again or is forgotten.
func (e newsEntry) of(state *ledger.State) *ledger.Reservation {
	if r := state.Reservation(e.name); r != nil && r.Changed == e.position {
		return r
	}
	return nil
}

// sweep makes room in a log that is full. It keeps it at most about half as long again as
// what it speaks of, also that of a cluster that never asks.
func (n *news) sweep(state *ledger.State) {
	n.entries = slices.DeleteFunc(n.entries, func(e newsEntry) bool { return e.of(state) == nil })
	if full := cap(n.entries); len(n.entries) > full-full/4-1 {
		n.entries = append(make([]newsEntry, 0, full+full/2+1), n.entries...)
	}
}
