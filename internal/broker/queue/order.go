package queue

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Waiter is a request that waits in a Line for capacity.
type Waiter struct {
	ID string
	// Class is the same for waiters that have equal needs and can be served by the same
	// clusters.
	Class string
	Needs quantity.Amounts
	Rank  Rank
}

// Rank is the place of a waiter in the order of service. No two waiters have the same
// Position.
type Rank struct {
	// Priority is compared first: a higher one is served earlier.
	Priority int32
	// Position decides between waiters with equal priority: a lower one is served earlier.
	Position uint64
}

// Before reports whether a waiter with rank a is served before one with rank b.
func (a Rank) Before(b Rank) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Position < b.Position
}

// Line holds all waiters in the order of service. The zero value is an empty Line. It is
// not safe for concurrent use.
type Line struct {
	waiters map[string]*waiter
	order   tree
	classes map[string]*class
	// heads holds the first waiter of each class, in the order of service.
	heads   tree
	columns map[corev1.ResourceName]int
}

type waiter struct {
	Waiter
	class *class
	// needs holds the amount of each resource that the waiter needs, by the resource's
	// column. Columns beyond the end are zero.
	needs []int64
}

type class struct{ members tree }

// Len returns the number of waiters.
func (l *Line) Len() int { return len(l.waiters) }

// Add adds a waiter. It panics if its ID or its rank is already in the line.
func (l *Line) Add(w Waiter) {
	if l.waiters[w.ID] != nil || l.order.containsRank(w.Rank) {
		panic(fmt.Sprintf("waiter %q, or another one with rank %+v, is already in the line", w.ID, w.Rank))
	}
	if l.waiters == nil {
		l.waiters, l.classes, l.columns = map[string]*waiter{}, map[string]*class{}, map[corev1.ResourceName]int{}
	}
	entry := &waiter{Waiter: w, needs: l.toColumns(w.Needs), class: l.classes[w.Class]}
	if entry.class == nil {
		entry.class = &class{}
		l.classes[w.Class] = entry.class
	}
	l.waiters[w.ID] = entry
	l.order.insertNode(entry)
	l.updateClass(entry.class, func(members *tree) { members.insertNode(entry) })
}

// Remove removes a waiter and reports whether it was in the line.
func (l *Line) Remove(id string) bool {
	entry := l.waiters[id]
	if entry == nil {
		return false
	}
	delete(l.waiters, id)
	l.order.removeNode(entry.Rank)
	l.updateClass(entry.class, func(members *tree) { members.removeNode(entry.Rank) })
	if entry.class.members.root == nil {
		delete(l.classes, entry.Class)
	}
	return true
}

// updateClass applies change to the members of a class, and keeps heads up to date.
func (l *Line) updateClass(c *class, change func(*tree)) {
	was := c.members.firstWaiter()
	change(&c.members)
	is := c.members.firstWaiter()
	if was == is {
		return
	}
	if was != nil {
		l.heads.removeNode(was.Rank)
	}
	if is != nil {
		l.heads.insertNode(is)
	}
}

func (l *Line) toColumns(amounts quantity.Amounts) []int64 {
	var out []int64
	for _, name := range amounts.Names() {
		at, known := l.columns[name]
		if !known {
			at = len(l.columns)
			l.columns[name] = at
		}
		for len(out) <= at {
			out = append(out, 0)
		}
		out[at] = max(amounts[name], 0)
	}
	return out
}

// Place returns a waiter's place in the line, beginning with 1; 0 if the waiter is not in
// the line.
func (l *Line) Place(id string) int {
	entry := l.waiters[id]
	if entry == nil {
		return 0
	}
	return l.order.countBefore(entry.Rank) + 1
}

// First returns the ID of the first waiter whose needs fit into free and for which accept
// returns true; "" if there is none. It calls accept only for the first waiter of each
// class.
func (l *Line) First(free quantity.Amounts, accept func(id string) bool) string {
	return l.FirstOf(math.MinInt32, free, accept)
}

// FirstOf works like First, but ignores waiters whose priority is below the minimum, the parameter
// least.
func (l *Line) FirstOf(least int32, free quantity.Amounts, accept func(id string) bool) string {
	room := make([]int64, len(l.columns))
	for name, at := range l.columns {
		room[at] = free[name]
	}
	if w := l.heads.root.firstFitting(least, room, accept); w != nil {
		return w.ID
	}
	return ""
}

// All calls f for every waiter, in the order of service, until f returns false.
func (l *Line) All(f func(id string) bool) { l.order.root.walkInOrder(f) }
