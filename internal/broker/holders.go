package broker

import (
	"maps"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// holders are the reservations that may be told to make room for another one: they
// stand, were asked for, have no notice yet, are not called back and are not between two
// providers.
type holders struct {
	// on is the priority of each, by cluster.
	on map[string]map[*ledger.Reservation]int32
	// count of them, by priority.
	count map[int32]int
}

func newHolders() holders {
	return holders{on: map[string]map[*ledger.Reservation]int32{}, count: map[int32]int{}}
}

// noteHolder brings the holders in step with a reservation that changed. On the cluster of a
// new one there may be room now for somebody who waits.
func (t *term) noteHolder(r *ledger.Reservation) {
	h, p := &t.holders, r.Current()
	has := r.Stands(p) && r.Notice == nil && r.CalledBack() == nil && !r.Unclaimed && r.Beside(p) == nil
	var priority int32
	if has {
		priority = t.priority(r)
		if was, had := h.on[p.Provider][r]; had && was == priority {
			return
		}
	}
	for i := range r.Placements {
		h.remove(r.Placements[i].Provider, r)
	}
	if has {
		h.add(p.Provider, r, priority)
		t.waiters.stirred[p.Provider] = true
	}
}

func (h *holders) add(clusterID string, r *ledger.Reservation, priority int32) {
	if h.on[clusterID] == nil {
		h.on[clusterID] = map[*ledger.Reservation]int32{}
	}
	h.on[clusterID][r] = priority
	h.count[priority]++
}

func (h *holders) remove(clusterID string, r *ledger.Reservation) {
	was, had := h.on[clusterID][r]
	if !had {
		return
	}
	if delete(h.on[clusterID], r); len(h.on[clusterID]) == 0 {
		delete(h.on, clusterID)
	}
	if h.count[was]--; h.count[was] == 0 {
		delete(h.count, was)
	}
}

// lowest priority of any of them, false if there are none.
func (h *holders) lowest() (int32, bool) {
	if len(h.count) == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Keys(h.count))), true
}

// lowestOn is lowest of those on a cluster.
func (h *holders) lowestOn(clusterID string) (int32, bool) {
	if len(h.on[clusterID]) == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Values(h.on[clusterID]))), true
}

// all of them, in no order.
func (h *holders) all() []*ledger.Reservation {
	var out []*ledger.Reservation
	for _, on := range h.on {
		out = slices.AppendSeq(out, maps.Keys(on))
	}
	return out
}
