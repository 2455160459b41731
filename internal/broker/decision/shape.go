package decision

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// shape is a quantity.NodeShape whose free amounts are in the order of the market's columns. An
// amount is notNamed if the nodes do not have the resource.
type shape struct {
	count  int64
	free   []int64
	labels map[string]string
	taints []brokerv1alpha1.Taint
}

func (c *contest) mayUseShape(s *shape) bool {
	return requirements.TolerateAll(c.tolerations, s.taints) && requirements.HasAll(s.labels, c.nodeLabels)
}

const notNamed = packing.NotNamed

// readShapes converts node shapes of the candidate in row i. It ignores resources that the row has
// no column for.
func (m *Market) readShapes(i int32, shapes []quantity.NodeShape) []shape {
	out := make([]shape, 0, len(shapes))
	for _, s := range shapes {
		if s.Count <= 0 {
			continue
		}
		free := make([]int64, m.shapeWidth(i))
		for k := range free {
			free[k] = notNamed
		}
		for name, v := range s.Free {
			if k, known := m.columnOf[name]; known && int(k) < len(free) && m.columnIn(i, name) != nil {
				free[k] = max(v, 0)
			}
		}
		out = append(out, shape{s.Count, free, maps.Clone(s.Labels), slices.Clone(s.Taints)})
	}
	return out
}

// shapeWidth returns the length of shape.free in a row: one more than the highest column index that
// the row uses.
func (m *Market) shapeWidth(i int32) int {
	width := builtinColumns
	for _, k := range m.named[i] {
		width = max(width, k+1)
	}
	return int(width)
}

// fitsShapes reports whether all requested pods fit on the nodes of a row, and returns how many of
// them do. For pods of one size the number is exact. For several sizes, a better packing might
// place more pods than it returns.
func (c *contest) fitsShapes(i int) (placed int64, ok bool) {
	nodes := c.market.shapes[i]
	switch len(c.kinds) {
	case 0:
		return 0, true
	case 1:
		want := c.kinds[0].count
		placed = c.countFitting(nodes, c.podNeeds, want)
		return placed, placed >= want
	}
	return c.packPods(nodes)
}

// countFitting returns how many of want equal pods fit on the nodes. It fills each node separately,
// which is exact for equal pods.
func (c *contest) countFitting(nodes []shape, pod []packing.Need, want int64) int64 {
	var placed int64
	for k := range nodes {
		s := &nodes[k]
		each := packing.PerNode(s.free, pod)
		if each == 0 || !c.mayUseShape(s) {
			continue
		}
		missing := want - placed
		if nodesNeeded := (missing-1)/each + 1; s.count >= nodesNeeded {
			return want
		}
		placed += each * s.count
	}
	return placed
}

// onePod is the need for one of a node's pod slots, which every pod has in addition to its resource
// requests.
var onePod = packing.Need{Column: podsColumn, Amount: 1, Implied: true}
