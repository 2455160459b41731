// Package packing computes how many pods fit on nodes. The broker uses it with the nodes that a
// cluster advertises, to choose a provider. The provider's agent uses it with the cluster's real
// nodes, to check the broker's choice.
//
// Amounts are stored by column: each resource has a number, its column. This way a decision over ten
// thousand clusters allocates no memory.
package packing

import (
	"math"
	"slices"
)

// NotNamed is the free amount of a resource that a node does not list.
const NotNamed int64 = -1

// Need is the amount of one resource that one pod requests.
type Need struct {
	// Column is the number of the resource. It is negative if no node offers the resource.
	Column int32
	Amount int64
	// Implied is true for a need that the pod does not request itself, such as one of the resource
	// pods. It is ignored on nodes that do not list the resource.
	Implied bool
}

// Pod describes pods of one size.
type Pod struct {
	Needs []Need
	// On says for each class of nodes, by number, whether the pod may run on nodes of that class. If
	// it is nil, the pod may run on all nodes.
	On []bool
}

// Nodes are groups of equal nodes, with the amounts that are free on each node. The zero value has no
// nodes. Reset keeps the memory for further use.
type Nodes struct {
	bins  []bin
	room  []int64
	width int
	// places and prices are memory that Harm reuses.
	places []int64
	prices []price
}

// bin is a group of nodes of one class with the same free amounts. The amounts of one such node are
// room[at:at+width].
type bin struct {
	count int64
	at    int
	class int32
}

// Reset removes all nodes. Nodes added from now on have width columns, one for each resource.
func (n *Nodes) Reset(width int) { n.bins, n.room, n.width = n.bins[:0], n.room[:0], width }

// Add adds count nodes of a class, with the same free amounts. Columns beyond the end of free are
// NotNamed.
func (n *Nodes) Add(count int64, free []int64, class int32) {
	n.bins = append(n.bins, bin{count, len(n.room), class})
	n.room = append(n.room, free...)
	for range n.width - len(free) {
		n.room = append(n.room, NotNamed)
	}
}

// Each calls f with every group of nodes, in the order in which Place fills them. f must not change
// or keep free.
func (n *Nodes) Each(f func(count int64, free []int64, class int32)) {
	for _, b := range n.bins {
		if b.count > 0 {
			f(b.count, n.room[b.at:b.at+n.width], b.class)
		}
	}
}

// CopyFrom makes n an independent copy of m. It reuses the memory of n.
func (n *Nodes) CopyFrom(m *Nodes) {
	n.bins, n.room, n.width = append(n.bins[:0], m.bins...), append(n.room[:0], m.room...), m.width
}

// Place puts count pods on the first nodes with room, and returns how many of them it placed.
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

// fillGroup places pods on the nodes of the group n.bins[at]. missing is how many pods to place, and each is the
// maximum for one node. fillGroup returns how many pods are still missing. It splits the group if its nodes do not all
// get the same number.
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

// Count returns how many pods of one size fit on the nodes if nothing else is placed there. If the
// number overflows, Count returns the largest int64.
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

// Room returns the sum of the free amounts of one resource on the nodes of the classes that the parameter on selects
// (see Pod.On). If the sum overflows, Room returns the largest int64.
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

// TakeRoomiest subtracts an amount of one resource from the nodes, starting with the nodes that have most of it. It
// uses only nodes of the classes that the parameter on selects (see Pod.On).
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

// countFit returns how many pods fit on each node of the group n.bins[at]; 0 if the pod may not run there.
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

// splitGroup leaves count nodes in the group n.bins[at], and moves the other nodes of that group to a new group right
// behind it.
func (n *Nodes) splitGroup(at int, count int64) {
	b := n.bins[at]
	n.bins[at].count = count
	n.bins = slices.Insert(n.bins, at+1, bin{b.count - count, len(n.room), b.class})
	n.room = append(n.room, n.room[b.at:b.at+n.width]...)
}

// takePods subtracts the needs of pods from every node of the group n.bins[at]. each is the number of pods for one
// node.
func (n *Nodes) takePods(at int, pod Pod, each int64) {
	room := n.room[n.bins[at].at:][:n.width]
	for _, need := range pod.Needs {
		if need.Column >= 0 && int(need.Column) < len(room) && room[need.Column] != NotNamed {
			room[need.Column] -= each * need.Amount
		}
	}
}

// PerNode returns how many pods with the given needs fit on a node with the given free amounts. It returns the largest
// int64 if no need limits the number.
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
