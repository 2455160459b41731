package queue

// tree is a treap of waiters, ordered by rank. The weights are hashes of the positions, so the same
// waiters always form the same tree.
type tree struct{ root *node }

type node struct {
	*waiter
	weight      uint64
	left, right *node
	size        int
	// least holds, by column, the smallest need of all waiters in this branch. Columns beyond the
	// end are zero.
	least []int64
}

// sumWeights returns the weight for a position: a hash of the position, computed as in the
// finalizer of splitmix64.
func sumWeights(position uint64) uint64 {
	x := position + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tree) insertNode(w *waiter) {
	leaf := &node{waiter: w, weight: sumWeights(w.Rank.Position)}
	before, after := t.root.splitAt(w.Rank)
	t.root = mergeTrees(mergeTrees(before, leaf.recompute()), after)
}

func (t *tree) removeNode(r Rank) { t.root = t.root.removeRank(r) }

func (t *tree) containsRank(r Rank) bool {
	n := t.root
	for n != nil && n.Waiter.Rank != r {
		n = n.childToward(r)
	}
	return n != nil
}

func (t *tree) firstWaiter() *waiter {
	n := t.root
	if n == nil {
		return nil
	}
	for n.left != nil {
		n = n.left
	}
	return n.waiter
}

// countBefore returns how many waiters are served before one with the given rank.
func (t *tree) countBefore(r Rank) int {
	count, n := 0, t.root
	for n != nil {
		if n.Waiter.Rank.Before(r) {
			count += n.left.subtreeSize() + 1
		}
		n = n.childToward(r)
	}
	return count
}

func (n *node) subtreeSize() int {
	if n == nil {
		return 0
	}
	return n.size
}

// childToward returns the branch of n in which to look for a rank. If n itself has that rank, it
// returns the left branch.
func (n *node) childToward(r Rank) *node {
	if n.Waiter.Rank.Before(r) {
		return n.right
	}
	return n.left
}

// recompute updates size and least of n after a change of its branches.
func (n *node) recompute() *node {
	n.size = n.left.subtreeSize() + n.right.subtreeSize() + 1
	n.least = append(n.least[:0], n.needs...)
	for _, branch := range []*node{n.left, n.right} {
		if branch == nil {
			continue
		}
		n.least = n.least[:min(len(n.least), len(branch.least))]
		for i := range n.least {
			n.least[i] = min(n.least[i], branch.least[i])
		}
	}
	return n
}

// splitAt splits a tree into the waiters that are served before a rank, and the other waiters.
func (n *node) splitAt(r Rank) (before, rest *node) {
	if n == nil {
		return nil, nil
	}
	if n.Waiter.Rank.Before(r) {
		n.right, rest = n.right.splitAt(r)
		return n.recompute(), rest
	}
	before, n.left = n.left.splitAt(r)
	return before, n.recompute()
}

// mergeTrees joins two trees. All waiters in a must be served before those in b.
func mergeTrees(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a.right = mergeTrees(a.right, b)
		return a.recompute()
	default:
		b.left = mergeTrees(a, b.left)
		return b.recompute()
	}
}

func (n *node) removeRank(r Rank) *node {
	switch {
	case n == nil:
		return nil
	case n.Waiter.Rank == r:
		return mergeTrees(n.left, n.right)
	case n.Waiter.Rank.Before(r):
		n.right = n.right.removeRank(r)
	default:
		n.left = n.left.removeRank(r)
	}
	return n.recompute()
}

// firstFitting returns the first waiter in the order of service whose priority is at least the
// given one (least), whose needs fit into room, and for which accept returns true; nil if there is
// none.
func (n *node) firstFitting(least int32, room []int64, accept func(id string) bool) *waiter {
	if n == nil || !fitsInto(n.least, room) {
		return nil
	}
	if w := n.left.firstFitting(least, room, accept); w != nil {
		return w
	}
	if n.Waiter.Rank.Priority < least {
		return nil
	}
	if fitsInto(n.needs, room) && accept(n.ID) {
		return n.waiter
	}
	return n.right.firstFitting(least, room, accept)
}

func fitsInto(needs, room []int64) bool {
	for i, need := range needs {
		if need > room[i] && need > 0 {
			return false
		}
	}
	return true
}

func (n *node) walkInOrder(f func(id string) bool) bool {
	return n == nil || n.left.walkInOrder(f) && f(n.ID) && n.right.walkInOrder(f)
}
