package decision

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Shape is one bar of a provider's histogram: how many nodes have at least this
// much free each. Where Free names pods, every pod takes one of them.
type Shape struct {
	Count int64
	Free  quantity.Amounts
}

// Pods is a request in pod shapes: so many pods of this size each.
type Pods struct {
	Count int64
	Each  quantity.Amounts
}

// shape is a Shape with its amounts in column order; notNamed where it has none.
type shape struct {
	count int64
	free  []int64
}

const notNamed int64 = -1

func (m *Market) internShapes(shapes []Shape) []shape {
	out := make([]shape, 0, len(shapes))
	for _, s := range shapes {
		if s.Count <= 0 {
			continue
		}
		for name := range s.Free {
			if m.mayIntern(name) {
				m.intern(name)
			}
		}
		free := make([]int64, len(m.columns))
		for k := range free {
			free[k] = notNamed
			if v, ok := s.Free[m.columns[k].name]; ok {
				free[k] = max(v, 0)
			}
		}
		out = append(out, shape{s.Count, free})
	}
	return out
}

// fitting counts how many of the wanted pods the nodes take, up to want. Nodes do
// not share pods and the pods are alike, so filling each node by itself is exact.
func fitting(nodes []shape, pod []need, want int64) int64 {
	var placed int64
	for _, s := range nodes {
		each := s.podsPerNode(pod)
		if each == 0 {
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

func (s shape) podsPerNode(pod []need) int64 {
	each := int64(math.MaxInt64)
	for _, n := range pod {
		free := notNamed
		if n.column >= 0 && int(n.column) < len(s.free) {
			free = s.free[n.column]
		}
		switch {
		case free == notNamed && n.implied:
		case free < n.amount:
			return 0
		default:
			each = min(each, free/n.amount)
		}
	}
	return each
}

// onePod is what every pod takes beside what it asks for.
var onePod = need{name: corev1.ResourcePods, column: podsColumn, amount: 1, implied: true}
