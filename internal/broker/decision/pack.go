package decision

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// kind is the requested pods of one size. The needs of each pod are podNeeds[from:to].
type kind struct {
	count    int64
	from, to int
	// share is the size of one pod: the largest of its shares in the request's total amounts, over all
	// resources.
	share float64
}

// sortKinds reads the requested pod shapes and sorts them by size. The largest come first, because
// they are the hardest to place.
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
	c.eachNeeds = c.eachNeeds[:0]
	for name, q := range p.Resources {
		amount := quantity.Base(name, q)
		c.eachNeeds = c.market.insertNeed(c.eachNeeds, 0, name, amount)
		namesPods = namesPods || name == corev1.ResourcePods && amount > 0
		if whole := c.request.Amounts[name]; whole > 0 {
			k.share = max(k.share, float64(amount)/float64(whole))
		}
	}
	for _, n := range c.eachNeeds {
		c.podNeeds = append(c.podNeeds, packing.Need{Column: n.column, Amount: n.amount})
	}
	if !namesPods {
		c.podNeeds = append(c.podNeeds, onePod)
	}
	k.to = len(c.podNeeds)
	c.kinds = append(c.kinds, k)
}

// packPods places one kind of pods after the other, each pod on the first node with room (first-fit
// decreasing). It returns how many pods it placed, and whether it placed all.
func (c *contest) packPods(nodes []shape) (placed int64, ok bool) {
	width := 0
	for k := range nodes {
		width = max(width, len(nodes[k].free))
	}
	c.nodes.Reset(width)
	for k := range nodes {
		if s := &nodes[k]; c.mayUseShape(s) {
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
