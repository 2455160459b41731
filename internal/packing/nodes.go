// Package packing places pods on nodes. The broker uses it to choose a provider, from what the
// provider advertises, and the provider's agent to check its answer, from its real nodes.
//
// Amounts are in columns, one for each resource, so that a decision over ten thousand clusters
// allocates nothing.
package packing

import (
	"math"
	"slices"
)

// NotNamed is the free amount of a resource that a node does not name.
const NotNamed int64 = -1

// Need is what one pod requests of one resource.
type Need struct {
	// Column is the resource; negative if no node offers it.
	Column int32
	Amount int64
	// Implied needs are ignored on nodes that do not name the resource.
	Implied bool
}

// Pod is one size of pods.
type Pod struct {
	Needs []Need
	// On tells for each class of nodes whether the pod may run there; nil means everywhere.
	On []bool
}

// Nodes are groups of equal nodes with what is free on each. The zero Nodes are empty. They keep
// their memory when they are reset.
type Nodes struct {
	bins  []bin
	room  []int64
	width int
}

// bin is a number of nodes with the same free amounts, which are room[at:at+width].
type bin struct {
	count int64
	at    int
	class int32
}

// Reset removes all nodes. Those added from now on have the given number of columns.
func (n *Nodes) Reset(width int) { n.bins, n.room, n.width = n.bins[:0], n.room[:0], width }

// Add adds nodes of a class. Missing columns are NotNamed.
func (n *Nodes) Add(count int64, free []int64, class int32) {
	n.bins = append(n.bins, bin{count, len(n.room), class})
	n.room = append(n.room, free...)
	for range n.width - len(free) {
		n.room = append(n.room, NotNamed)
	}
}

// CopyFrom makes n equal to m.
func (n *Nodes) CopyFrom(m *Nodes) {
	n.bins, n.room, n.width = append(n.bins[:0], m.bins...), append(n.room[:0], m.room...), m.width
}

// Place puts pods on the first nodes with room and returns how many it placed.
func (n *Nodes) Place(pod Pod, count int64) int64 {
	missing := count
	for at := 0; at < len(n.bins) && missing > 0; at++ {
		each := n.countFit(at, pod)
		if each == 0 {
			continue
		}
		missing = n.fillGroup(at, pod, each, missing)
	}
	return count - missing
}

// fillGroup puts up to each pods on every node of a group and returns how many of the missing ones are
// left. It splits the group if its nodes do not all get the same number.
func (n *Nodes) fillGroup(at int, pod Pod, each, missing int64) int64 {
	full := missing / each
	if full >= n.bins[at].count {
		n.takePods(at, pod, each)
		return missing - each*n.bins[at].count
	}
	n.splitGroup(at, full)
	if rest := missing % each; rest > 0 {
		n.splitGroup(at+1, 1)
		n.takePods(at+1, pod, rest)
	}
	n.takePods(at, pod, each)
	return 0
}

// Count returns how many pods fit if they are the only ones, saturating.
func (n *Nodes) Count(pod Pod) int64 {
	var sum int64
	for at := range n.bins {
		if each := n.countFit(at, pod); each > 0 {
			if n.bins[at].count > (math.MaxInt64-sum)/each {
				return math.MaxInt64
			}
			sum += each * n.bins[at].count
		}
	}
	return sum
}

// Room returns how much of one resource is free on all nodes together, saturating.
func (n *Nodes) Room(column int32, on []bool) int64 {
	var sum int64
	for at, b := range n.bins {
		if free := n.freeAt(at, column); b.count > 0 && free > 0 && isOn(on, b.class) {
			if b.count > (math.MaxInt64-sum)/free {
				return math.MaxInt64
			}
			sum += free * b.count
		}
	}
	return sum
}

// TakeRoomiest takes an amount of one resource, beginning with the nodes with the most room.
func (n *Nodes) TakeRoomiest(column int32, amount int64, on []bool) {
	for amount > 0 {
		best := -1
		for at := range n.bins {
			free := n.freeAt(at, column)
			if n.bins[at].count > 0 && free > 0 && isOn(on, n.bins[at].class) && (best < 0 || free > n.freeAt(best, column)) {
				best = at
			}
		}
		if best < 0 {
			return
		}
		free := n.freeAt(best, column)
		amount = n.fillGroup(best, Pod{Needs: []Need{{Column: column, Amount: 1}}}, free, amount)
	}
}

func isOn(on []bool, class int32) bool { return on == nil || on[class] }

// countFit returns how many pods fit on each node of a group.
func (n *Nodes) countFit(at int, pod Pod) int64 {
	b := n.bins[at]
	if b.count == 0 || !isOn(pod.On, b.class) {
		return 0
	}
	return PerNode(n.room[b.at:b.at+n.width], pod.Needs)
}

func (n *Nodes) freeAt(at int, column int32) int64 {
	if column < 0 || int(column) >= n.width {
		return NotNamed
	}
	return n.room[n.bins[at].at+int(column)]
}

// splitGroup leaves count nodes in a group and moves the others to a new one behind it.
func (n *Nodes) splitGroup(at int, count int64) {
	b := n.bins[at]
	n.bins[at].count = count
	n.bins = slices.Insert(n.bins, at+1, bin{b.count - count, len(n.room), b.class})
	n.room = append(n.room, n.room[b.at:b.at+n.width]...)
}

// takePods subtracts pods from each node of a group.
func (n *Nodes) takePods(at int, pod Pod, each int64) {
	room := n.room[n.bins[at].at:][:n.width]
	for _, need := range pod.Needs {
		if need.Column >= 0 && int(need.Column) < len(room) && room[need.Column] != NotNamed {
			room[need.Column] -= each * need.Amount
		}
	}
}

// PerNode returns how many pods with the given needs fit on a node.
func PerNode(free []int64, pod []Need) int64 {
	each := int64(math.MaxInt64)
	for _, n := range pod {
		have := NotNamed
		if n.Column >= 0 && int(n.Column) < len(free) {
			have = free[n.Column]
		}
		switch {
		case have == NotNamed && n.Implied:
		case have < n.Amount:
			return 0
		default:
			each = min(each, have/n.Amount)
		}
	}
	return each
}
