package queue

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Waiter is one that waits.
type Waiter struct {
	ID string
	// Class has the same needs, and the same wishes where they are to be met.
	Class string
	Needs quantity.Amounts
	Rank  Rank
}

// Rank is a place in the order. No two waiters have the same position.
type Rank struct {
	// Priority: the higher one comes first.
	Priority int32
	// Position among those of one priority: the lower one comes first.
	Position uint64
}

// Before is whether a is served before b where both can be.
func (a Rank) Before(b Rank) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Position < b.Position
}

// Line is everybody who waits. The zero value is empty and usable. It is not safe for
// concurrent use.
type Line struct {
	waiters map[string]*waiter
	order   tree
	classes map[string]*class
	// heads are the first of each class.
	heads   tree
	columns map[corev1.ResourceName]int
}

type waiter struct {
	Waiter
	class *class
	// needs by column; those beyond its end are zero.
	needs []int64
}

type class struct{ members tree }

// Len is how many wait.
func (l *Line) Len() int { return len(l.waiters) }

// Add lets one wait. It panics if that one waits already, or if another has its rank.
func (l *Line) Add(w Waiter) {
	if l.waiters[w.ID] != nil || l.order.has(w.Rank) {
		panic(fmt.Sprintf("waiter %q waits already, or another one at %+v", w.ID, w.Rank))
	}
	if l.waiters == nil {
		l.waiters, l.classes, l.columns = map[string]*waiter{}, map[string]*class{}, map[corev1.ResourceName]int{}
	}
	entry := &waiter{Waiter: w, needs: l.column(w.Needs), class: l.classes[w.Class]}
	if entry.class == nil {
		entry.class = &class{}
		l.classes[w.Class] = entry.class
	}
	l.waiters[w.ID] = entry
	l.order.insert(entry)
	l.among(entry.class, func(members *tree) { members.insert(entry) })
}

// Remove lets one wait no longer, and reports whether it did.
func (l *Line) Remove(id string) bool {
	entry := l.waiters[id]
	if entry == nil {
		return false
	}
	delete(l.waiters, id)
	l.order.remove(entry.Rank)
	l.among(entry.class, func(members *tree) { members.remove(entry.Rank) })
	if entry.class.members.root == nil {
		delete(l.classes, entry.Class)
	}
	return true
}

// among changes the members of a class, and keeps its first one among the heads.
func (l *Line) among(c *class, change func(*tree)) {
	was := c.members.first()
	change(&c.members)
	is := c.members.first()
	if was == is {
		return
	}
	if was != nil {
		l.heads.remove(was.Rank)
	}
	if is != nil {
		l.heads.insert(is)
	}
}

// column writes amounts by column. A name that is new gets the next one.
func (l *Line) column(amounts quantity.Amounts) []int64 {
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

// Place of a waiter in the line, from 1; 0 for one that does not wait.
func (l *Line) Place(id string) int {
	entry := l.waiters[id]
	if entry == nil {
		return 0
	}
	return l.order.before(entry.Rank) + 1
}

// Rank of a waiter; false for one that does not wait.
func (l *Line) Rank(id string) (Rank, bool) {
	entry := l.waiters[id]
	if entry == nil {
		return Rank{}, false
	}
	return entry.Rank, true
}

// First is the first waiter whose needs fit into what is free and whom accept, which
// is asked once for each class, takes; "" if there is none.
func (l *Line) First(free quantity.Amounts, accept func(id string) bool) string {
	return l.FirstOf(math.MinInt32, free, accept)
}

// FirstOf is First among those of a priority of least or more.
func (l *Line) FirstOf(least int32, free quantity.Amounts, accept func(id string) bool) string {
	room := make([]int64, len(l.columns))
	for name, at := range l.columns {
		room[at] = free[name]
	}
	if w := l.heads.root.fitting(least, room, accept); w != nil {
		return w.ID
	}
	return ""
}

// All calls f for everybody in order, until it returns false.
func (l *Line) All(f func(id string) bool) { l.order.root.walk(f) }
