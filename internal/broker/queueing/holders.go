package queueing

import (
	"maps"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// holders are the reservations that may have to make room for a request with higher priority: they
// have exactly one standing placement, are claimed by their requester, and have neither a notice
// nor a recall.
type holders struct {
	// on has the priority of each holder, by cluster.
	on map[string]map[*ledger.Reservation]int32
	// count is the number of holders of each priority.
	count map[int32]int
}

func newHolders() holders {
	return holders{on: map[string]map[*ledger.Reservation]int32{}, count: map[int32]int{}}
}

func (h *holders) addHolder(clusterID string, r *ledger.Reservation, priority int32) {
	if h.on[clusterID] == nil {
		h.on[clusterID] = map[*ledger.Reservation]int32{}
	}
	h.on[clusterID][r] = priority
	h.count[priority]++
}

func (h *holders) removeHolder(clusterID string, r *ledger.Reservation) {
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

// lowestPriority returns the lowest priority of all holders, false if there are none.
func (h *holders) lowestPriority() (int32, bool) {
	if len(h.count) == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Keys(h.count))), true
}

// lowestOn returns the lowest priority of the holders on one cluster, false if there are none.
func (h *holders) lowestOn(clusterID string) (int32, bool) {
	if len(h.on[clusterID]) == 0 {
		return 0, false
	}
	return slices.Min(slices.Collect(maps.Values(h.on[clusterID]))), true
}

// listHolders returns all holders, in random order.
func (h *holders) listHolders() []*ledger.Reservation {
	var out []*ledger.Reservation
	for _, on := range h.on {
		out = slices.AppendSeq(out, maps.Keys(on))
	}
	return out
}
