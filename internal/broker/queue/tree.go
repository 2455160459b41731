package queue

// tree is a treap of waiters in the order of their ranks. The weights derive from the
// positions, so that the same waiters always give the same tree.
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

// weigh hashes a position (the finalizer of splitmix64).
func weigh(position uint64) uint64 {
	x := position + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tree) insert(w *waiter) {
	before, after := t.root.split(w.Rank)
	t.root = merge(merge(before, newLeaf(w)), after)
}

func (t *tree) remove(r Rank) { t.root = t.root.removeRank(r) }

func (t *tree) contains(r Rank) bool {
	n := t.root
	for n != nil && n.Waiter.Rank != r {
		n = n.toward(r)
	}
	return n != nil
}

func (t *tree) first() *waiter {
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
			count += n.left.count() + 1
		}
		n = n.toward(r)
	}
	return count
}

func newLeaf(w *waiter) *node {
	return (&node{waiter: w, weight: weigh(w.Rank.Position)}).refresh()
}

func (n *node) count() int {
	if n == nil {
		return 0
	}
	return n.size
}

// toward returns the branch on the way to a rank; a node with that very rank counts as left.
func (n *node) toward(r Rank) *node {
	if n.Waiter.Rank.Before(r) {
		return n.right
	}
	return n.left
}

// refresh recomputes size and least from the branches.
func (n *node) refresh() *node {
	n.size = n.left.count() + n.right.count() + 1
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

// split divides a tree into the waiters before a rank and the rest.
func (n *node) split(r Rank) (before, rest *node) {
	if n == nil {
		return nil, nil
	}
	if n.Waiter.Rank.Before(r) {
		n.right, rest = n.right.split(r)
		return n.refresh(), rest
	}
	before, n.left = n.left.split(r)
	return before, n.refresh()
}

// merge joins two trees; everything in a must come before everything in b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a.right = merge(a.right, b)
		return a.refresh()
	default:
		b.left = merge(a, b.left)
		return b.refresh()
	}
}

func (n *node) removeRank(r Rank) *node {
	switch {
	case n == nil:
		return nil
	case n.Waiter.Rank == r:
		return merge(n.left, n.right)
	case n.Waiter.Rank.Before(r):
		n.right = n.right.removeRank(r)
	default:
		n.left = n.left.removeRank(r)
	}
	return n.refresh()
}

// firstFitting returns the first waiter in order, of priority least or higher, whose needs fit
// into room and that accept takes.
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

func (n *node) walk(f func(id string) bool) bool {
	return n == nil || n.left.walk(f) && f(n.ID) && n.right.walk(f)
}
