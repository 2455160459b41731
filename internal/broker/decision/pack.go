package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// kind is one size of pods that are wanted; its needs stand in contest.podNeeds.
type kind struct {
	count    int64
	from, to int
	// share is the largest part of what all pods need that one pod of this kind is.
	share float64
}

// sortKinds reads the pods that are wanted, the largest first: they are the hardest
// to place.
func (c *contest) sortKinds(pods []terms.Pods) {
	c.kinds, c.podNeeds = c.kinds[:0], c.podNeeds[:0]
	for _, p := range pods {
		if p.Count <= 0 {
			continue
		}
		from := len(c.podNeeds)
		c.podNeeds = c.market.resolve(c.podNeeds, p.Each)
		if p.Each[corev1.ResourcePods] <= 0 {
			c.podNeeds = append(c.podNeeds, onePod)
		}
		c.kinds = append(c.kinds, kind{p.Count, from, len(c.podNeeds), c.shareOf(p.Each)})
	}
	slices.SortStableFunc(c.kinds, func(a, b kind) int { return cmp.Compare(b.share, a.share) })
}

func (c *contest) shareOf(each quantity.Amounts) float64 {
	share := 0.0
	for name, amount := range each {
		if whole := c.request.Amounts[name]; whole > 0 {
			share = max(share, float64(amount)/float64(whole))
		}
	}
	return share
}

// bin is so many nodes with the same left, which stands in contest.room from at on.
type bin struct {
	count int64
	at    int
}

// pack places the kinds one after the other, each on the first nodes that take it.
func (c *contest) pack(nodes []shape) (placed int64, ok bool) {
	c.fillBins(nodes)
	ok = true
	for _, k := range c.kinds {
		n := c.place(k)
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
		if !terms.HasAll(s.labels, c.nodeLabels) {
			continue
		}
		c.bins = append(c.bins, bin{s.count, len(c.room)})
		c.room = append(c.room, s.free...)
		for range c.stride - len(s.free) {
			c.room = append(c.room, notNamed)
		}
	}
}

// place fills bins with pods of a kind and returns how many found room. A bin of which
// not all nodes are filled alike is split.
func (c *contest) place(k kind) int64 {
	pod, missing := c.podNeeds[k.from:k.to], k.count
	for at := 0; at < len(c.bins) && missing > 0; at++ {
		b := c.bins[at]
		each := podsPerNode(c.room[b.at:b.at+c.stride], pod)
		if each == 0 {
			continue
		}
		if full := missing / each; full < b.count {
			c.split(at, full)
			if rest := missing % each; rest > 0 {
				c.split(at+1, 1)
				c.take(at+1, pod, rest)
			}
			c.take(at, pod, each)
			return k.count
		}
		c.take(at, pod, each)
		missing -= each * b.count
	}
	return k.count - missing
}

// split leaves so many nodes in a bin and puts the others into one behind it.
func (c *contest) split(at int, count int64) {
	b := c.bins[at]
	c.bins[at].count = count
	c.bins = slices.Insert(c.bins, at+1, bin{b.count - count, len(c.room)})
	c.room = append(c.room, c.room[b.at:b.at+c.stride]...)
}

func (c *contest) take(at int, pod []need, each int64) {
	room := c.room[c.bins[at].at:][:c.stride]
	for _, n := range pod {
		if n.column >= 0 && int(n.column) < len(room) && room[n.column] != notNamed {
			room[n.column] -= each * n.amount
		}
	}
}
