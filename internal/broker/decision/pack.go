package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
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
func (c *contest) sortKinds(pods []terms.Pods) {
	c.kinds, c.podNeeds = c.kinds[:0], c.podNeeds[:0]
	for _, p := range pods {
		if p.Count <= 0 {
			continue
		}
		from := len(c.podNeeds)
		c.eachNeeds = c.market.resolveNeeds(c.eachNeeds[:0], p.Each)
		for _, n := range c.eachNeeds {
			c.podNeeds = append(c.podNeeds, packing.Need{Column: n.column, Amount: n.amount})
		}
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

// packPods places one kind after the other, each on the first nodes with room (first fit,
// decreasing).
func (c *contest) packPods(nodes []shape) (placed int64, ok bool) {
	width := 0
	for k := range nodes {
		width = max(width, len(nodes[k].free))
	}
	c.nodes.Reset(width)
	for k := range nodes {
		if s := &nodes[k]; terms.HasAll(s.labels, c.nodeLabels) {
			c.nodes.Add(s.count, s.free, 0)
		}
	}
	ok = true
	for _, k := range c.kinds {
		n := c.nodes.Place(packing.Pod{Needs: c.podNeeds[k.from:k.to]}, k.count)
		placed += n
		ok = ok && n == k.count
	}
	return placed, ok
}
