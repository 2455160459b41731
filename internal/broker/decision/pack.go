package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// kind is one size of wanted pods. Its needs are podNeeds[from:to].
type kind struct {
	count    int64
	from, to int
	// share is the largest fraction of any requested amount that one pod takes.
	share float64
}

// sortKinds reads the wanted pods and sorts them by size, the largest first, because they are
// the hardest to place.
func (c *contest) sortKinds(shapes []brokerv1alpha1.PodShape) {
	c.kinds, c.podNeeds = c.kinds[:0], c.podNeeds[:0]
	for i := range shapes {
		if shapes[i].Count > 0 {
			c.addKind(&shapes[i])
		}
	}
	slices.SortStableFunc(c.kinds, func(a, b kind) int { return cmp.Compare(b.share, a.share) })
}

func (c *contest) addKind(p *brokerv1alpha1.PodShape) {
	k := kind{count: int64(p.Count), from: len(c.podNeeds)}
	namesPods := false
	for name, q := range p.Resources {
		amount := quantity.Base(name, q)
		c.podNeeds = c.market.insertNeed(c.podNeeds, k.from, name, amount)
		namesPods = namesPods || name == corev1.ResourcePods && amount > 0
		if whole := c.request.Amounts[name]; whole > 0 {
			k.share = max(k.share, float64(amount)/float64(whole))
		}
	}
	if !namesPods {
		c.podNeeds = append(c.podNeeds, onePod)
	}
	k.to = len(c.podNeeds)
	c.kinds = append(c.kinds, k)
}

// bin is a number of nodes with the same free amounts, which are stored from contest.room[at]
// on.
type bin struct {
	count int64
	at    int
}

// packPods places one kind after the other, each on the first nodes with room (first fit,
// decreasing).
func (c *contest) packPods(nodes []shape) (placed int64, ok bool) {
	c.fillBins(nodes)
	ok = true
	for _, k := range c.kinds {
		n := c.placePods(k)
		placed += n
		ok = ok && n == k.count
	}
	return placed, ok
}

func (c *contest) fillBins(nodes []shape) {
	c.bins, c.room, c.stride = c.bins[:0], c.room[:0], 0
	for k := range nodes {
		c.stride = max(c.stride, len(nodes[k].free))
	}
	for k := range nodes {
		s := &nodes[k]
		if !requirements.HasAll(s.labels, c.nodeLabels) {
			continue
		}
		c.bins = append(c.bins, bin{s.count, len(c.room)})
		c.room = append(c.room, s.free...)
		for range c.stride - len(s.free) {
			c.room = append(c.room, notNamed)
		}
	}
}

// placePods fills bins with pods of a kind and returns how many pods it placed. It splits a bin
// if its nodes do not all get the same number.
func (c *contest) placePods(k kind) int64 {
	pod, missing := c.podNeeds[k.from:k.to], k.count
	for at := 0; at < len(c.bins) && missing > 0; at++ {
		b := c.bins[at]
		each := podsPerNode(c.room[b.at:b.at+c.stride], pod)
		if each == 0 {
			continue
		}
		if full := missing / each; full < b.count {
			c.splitBin(at, full)
			if rest := missing % each; rest > 0 {
				c.splitBin(at+1, 1)
				c.takeRoom(at+1, pod, rest)
			}
			c.takeRoom(at, pod, each)
			return k.count
		}
		c.takeRoom(at, pod, each)
		missing -= each * b.count
	}
	return k.count - missing
}

// splitBin leaves count nodes in a bin and moves the others to a new one behind it.
func (c *contest) splitBin(at int, count int64) {
	b := c.bins[at]
	c.bins[at].count = count
	c.bins = slices.Insert(c.bins, at+1, bin{b.count - count, len(c.room)})
	c.room = append(c.room, c.room[b.at:b.at+c.stride]...)
}

func (c *contest) takeRoom(at int, pod []need, each int64) {
	room := c.room[c.bins[at].at:][:c.stride]
	for _, n := range pod {
		if n.column >= 0 && int(n.column) < len(room) && room[n.column] != notNamed {
			room[n.column] -= each * n.amount
		}
	}
}
