package broker

import (
	"container/heap"
	"slices"
	"time"
)

// schedule orders names by deadline. When a deadline moves, the old entry stays in the heap; it is
// recognized as outdated and dropped when it is popped.
type schedule struct {
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

func newSchedule() schedule {
	return schedule{at: map[string]int64{}, wake: make(chan struct{}, 1)}
}

// setDeadline sets the deadline of a name; the zero time removes it.
func (s *schedule) setDeadline(name string, at time.Time) {
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

// popDue removes and returns the names whose deadline has come. It also returns the next deadline,
// zero if there is none.
func (s *schedule) popDue(now time.Time) (due []string, next time.Time) {
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
func (s *schedule) shrinkHeap() {
	if full := cap(s.heap); full > 1024 && len(s.heap) < full-full/3 {
		s.heap = slices.Clone(s.heap)
	}
}
