package broker

import (
	"maps"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/mutant"
)

// holders are the reservations that may be told to make room for another one: they
// stand, were asked for, and have no notice yet.
type holders struct {
	of map[string]holder
	// on is their names, by cluster.
	on map[string]map[string]bool
	// count of them, by priority.
	count map[int32]int
}

type holder struct {
	cluster  string
	priority int32
}

func newHolders() holders {
	return holders{of: map[string]holder{}, on: map[string]map[string]bool{}, count: map[int32]int{}}
}

// noteHolder brings the holders in step with a reservation that changed. On the cluster of a
// new one there may be room now for somebody who waits.
func (t *term) noteHolder(r *ledger.Reservation) {
	h, p := &t.holders, r.Current()
	was, had := h.of[r.Name]
	has := r.Stands(p) && r.Notice == nil && !r.Unclaimed
	var is holder
	if has {
		is = holder{p.Provider, t.priority(r)}
		if mutant.Active == mutant.EqualVictim {
			is.priority--
		}
	}
	if had == has && was == is {
		return
	}
	if had {
		h.remove(r.Name, was)
	}
	if has {
		h.add(r.Name, is)
		t.waiters.stirred[is.cluster] = true
	}
}

func (h *holders) add(name string, is holder) {
	h.of[name] = is
	if h.on[is.cluster] == nil {
		h.on[is.cluster] = map[string]bool{}
	}
	h.on[is.cluster][name] = true
	h.count[is.priority]++
}

func (h *holders) remove(name string, was holder) {
	delete(h.of, name)
	if delete(h.on[was.cluster], name); len(h.on[was.cluster]) == 0 {
		delete(h.on, was.cluster)
	}
	if h.count[was.priority]--; h.count[was.priority] == 0 {
		delete(h.count, was.priority)
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
	var lowest int32
	some := false
	for name := range h.on[clusterID] {
		if p := h.of[name].priority; !some || p < lowest {
			lowest, some = p, true
		}
	}
	return lowest, some
}
