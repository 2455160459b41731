package queue

// tree is a treap of waiters, ordered by rank. The weights derive from the positions, so that
// the same waiters always form the same tree.
type tree struct{ root *node }

type node struct {
	*waiter
	weight      uint64
	left, right *node
	size        int
	// least is the minimum need of any waiter in this branch, by column; columns beyond the end are
	// zero.
	least []int64
}

// sumWeights hashes a position (the finalizer of splitmix64).
func sumWeights(position uint64) uint64 {
	x := position + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tree) insertNode(w *waiter) {
	before, after := t.root.splitAt(w.Rank)
	t.root = mergeTrees(mergeTrees(before, newLeaf(w)), after)
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

// countBefore counts the waiters that come before a rank.
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

func newLeaf(w *waiter) *node {
	return (&node{waiter: w, weight: sumWeights(w.Rank.Position)}).recompute()
}

func (n *node) subtreeSize() int {
	if n == nil {
		return 0
	}
	return n.size
}

// childToward returns the branch on the way to a rank. If n has exactly that rank,
// it returns the left branch.
func (n *node) childToward(r Rank) *node {
	if n.Waiter.Rank.Before(r) {
		return n.right
	}
	return n.left
}

// recompute recomputes size and least from the branches.
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

// splitAt divides a tree into the waiters before a rank and the rest.
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

// mergeTrees joins two trees; everything in a must come before everything in b.
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

// firstFitting returns the first waiter in order, of priority least or higher, whose needs fit
// into room and that accept approves.
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
