// Package agenda holds the work that the parts of the broker leave for each other. The session carries
// it out in the order of the fields of Agenda; the package of the session describes when.
package agenda

import (
	"container/heap"
	"maps"
	"slices"
	"time"
)

// Agenda is the work that is left to do.
type Agenda struct {
	// Outdated are the clusters whose free capacity must be recomputed.
	Outdated Clusters
	// Schedule has the steps that are due at some time.
	Schedule
	// Freed are the clusters that may now serve a request that they could not serve before.
	Freed Clusters
	// Preemptable are the clusters on which a waiting request may find victims that were not there when
	// requests were last served.
	Preemptable Clusters
}

// New returns an empty Agenda.
func New() Agenda {
	return Agenda{Clusters{}, Schedule{at: map[string]int64{}, wake: make(chan struct{}, 1)}, Clusters{}, Clusters{}}
}

// NoteOutdated notes that the free capacity of a cluster must be recomputed.
func (a *Agenda) NoteOutdated(clusterID string) { a.Outdated.Add(clusterID) }

// NotePreemptable notes that a waiting request may find victims on a cluster that were not there before.
func (a *Agenda) NotePreemptable(clusterID string) { a.Preemptable.Add(clusterID) }

// IsFreed reports whether waiting requests have not been tried on a cluster since it was freed.
func (a *Agenda) IsFreed(clusterID string) bool { return a.Freed[clusterID] }

// Clusters is a set of clusters.
type Clusters map[string]bool

// Add adds a cluster.
func (c Clusters) Add(id string) { c[id] = true }

// First returns the first cluster in the order of the IDs, "" if there is none.
func (c Clusters) First() string {
	if len(c) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(c)))
}

// Schedule orders names by deadline. When a deadline moves, the old entry stays in the heap; it is
// recognized as outdated and dropped when it is popped.
type Schedule struct {
	heap dueHeap
	// at has the current deadline of each name in Unix nanoseconds. Every reservation has one, and
	// a time.Time would be three times as large.
	at map[string]int64
	// wake receives a value when the earliest deadline may have changed.
	wake chan struct{}
}

type dueEntry struct {
	name string
	at   int64
}

type dueHeap []dueEntry

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].name < h[j].name // so that the same book gives the same order
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// NextChanged returns a channel that receives a value when the earliest deadline may have changed.
func (s *Schedule) NextChanged() <-chan struct{} { return s.wake }

// SetDeadline sets the deadline of a name; the zero time removes it.
func (s *Schedule) SetDeadline(name string, at time.Time) {
	if at.IsZero() {
		delete(s.at, name)
		return
	}
	nanoseconds := at.UnixNano()
	if s.at[name] == nanoseconds {
		return
	}
	s.at[name] = nanoseconds
	heap.Push(&s.heap, dueEntry{name, nanoseconds})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// PopDue removes and returns the names whose deadline has come. It also returns the next deadline,
// zero if there is none.
func (s *Schedule) PopDue(now time.Time) (due []string, next time.Time) {
	defer s.shrinkHeap()
	for len(s.heap) > 0 {
		first := s.heap[0]
		if current, ok := s.at[first.name]; !ok || current != first.at {
			heap.Pop(&s.heap)
			continue
		}
		if at := time.Unix(0, first.at).UTC(); at.After(now) {
			return due, at
		}
		heap.Pop(&s.heap)
		delete(s.at, first.name)
		due = append(due, first.name)
	}
	return due, time.Time{}
}

// shrinkHeap frees memory when the heap has become much smaller, because outdated entries were
// dropped. Nearly every entry becomes outdated at some time.
func (s *Schedule) shrinkHeap() {
	if full := cap(s.heap); full > 1024 && len(s.heap) < full-full/3 {
		s.heap = slices.Clone(s.heap)
	}
}
