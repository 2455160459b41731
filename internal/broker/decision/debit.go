package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Commitment is promised capacity that is not in use yet, so the provider's nodes still report
// it as free.
type Commitment struct {
	Amounts quantity.Amounts
	// Pods are the promised pod shapes; none means any shape.
	Pods []brokerv1alpha1.PodShape
	// Nodes are the labels of the nodes on which the capacity was promised.
	Nodes map[string]brokerv1alpha1.LabelValue
	// Tolerations are those of the promised pods.
	Tolerations []brokerv1alpha1.Toleration
}

// mayUse reports whether the promised pods may run on nodes of a shape.
func (c *Commitment) mayUse(s *quantity.NodeShape) bool {
	return requirements.TolerateAll(c.Tolerations, s.Taints) && requirements.HasAll(s.Labels, c.Nodes)
}

// Debit subtracts commitments from a histogram of nodes and returns the room left for the next
// request. It places pods as for a request. It takes amounts without pod shapes from the nodes
// with the most room, because Kubernetes' scheduler spreads pods. It does not change shapes.
func Debit(shapes []quantity.NodeShape, commitments []Commitment) []quantity.NodeShape {
	left := slices.Clone(shapes)
	for i := range commitments {
		c := &commitments[i]
		rest := c.Amounts
		for k := range c.Pods {
			placed, each := int64(0), requirements.PodAmounts(&c.Pods[k])
			left, placed = debitPods(left, each, int64(c.Pods[k].Count), c)
			rest = rest.Sub(each.Times(placed))
		}
		for _, name := range rest.Names() {
			if amount := rest[name]; amount > 0 && name != corev1.ResourcePods {
				left = debitAmount(left, name, amount, c)
			}
		}
	}
	return left
}

// debitPods places as many of count equal pods as fit.
func debitPods(shapes []quantity.NodeShape, each quantity.Amounts, count int64, c *Commitment) (left []quantity.NodeShape, placed int64) {
	for i := 0; i < len(shapes) && placed < count; i++ {
		s := shapes[i]
		if !c.mayUse(&s) {
			continue
		}
		pod := each
		if _, limited := s.Free[corev1.ResourcePods]; limited {
			pod = pod.Max(quantity.Amounts{corev1.ResourcePods: 1})
		}
		fit := timesInto(pod, s.Free)
		missing := count - placed
		switch {
		case fit == 0:
		case missing/fit >= s.Count:
			shapes[i].Free = s.Free.Sub(pod.Times(fit))
			placed += fit * s.Count
		default:
			full, rest := missing/fit, missing%fit
			parts := []quantity.NodeShape{
				{Count: full, Free: s.Free.Sub(pod.Times(fit)), Labels: s.Labels, Taints: s.Taints},
				{Count: min(rest, 1), Free: s.Free.Sub(pod.Times(rest)), Labels: s.Labels, Taints: s.Taints},
				{Count: s.Count - full - min(rest, 1), Free: s.Free, Labels: s.Labels, Taints: s.Taints},
			}
			parts = slices.DeleteFunc(parts, func(part quantity.NodeShape) bool { return part.Count == 0 })
			return slices.Concat(shapes[:i], parts, shapes[i+1:]), count
		}
	}
	return shapes, placed
}

// timesInto returns how many times pod fits into free.
func timesInto(pod, free quantity.Amounts) int64 {
	times := int64(-1)
	for name, need := range pod {
		if need <= 0 {
			continue
		}
		if fit := max(free[name], 0) / need; times < 0 || fit < times {
			times = fit
		}
	}
	return max(times, 0)
}

// debitAmount deducts an amount of one resource, beginning with the nodes with the most room.
func debitAmount(shapes []quantity.NodeShape, name corev1.ResourceName, amount int64, c *Commitment) []quantity.NodeShape {
	for amount > 0 {
		i := findRoomiest(shapes, name, c)
		if i < 0 {
			return shapes
		}
		s := shapes[i]
		free := s.Free[name]
		if full := amount / free; full >= s.Count {
			shapes[i].Free = s.Free.Sub(quantity.Amounts{name: free})
			amount -= free * s.Count
			continue
		}
		full, rest := amount/free, amount%free
		parts := []quantity.NodeShape{
			{Count: full, Free: s.Free.Sub(quantity.Amounts{name: free}), Labels: s.Labels, Taints: s.Taints},
			{Count: min(rest, 1), Free: s.Free.Sub(quantity.Amounts{name: rest}), Labels: s.Labels, Taints: s.Taints},
			{Count: s.Count - full - min(rest, 1), Free: s.Free, Labels: s.Labels, Taints: s.Taints},
		}
		parts = slices.DeleteFunc(parts, func(part quantity.NodeShape) bool { return part.Count == 0 })
		return slices.Concat(shapes[:i], parts, shapes[i+1:])
	}
	return shapes
}

func findRoomiest(shapes []quantity.NodeShape, name corev1.ResourceName, c *Commitment) int {
	best := -1
	for i, s := range shapes {
		if s.Count > 0 && s.Free[name] > 0 && c.mayUse(&s) && (best < 0 || s.Free[name] > shapes[best].Free[name]) {
			best = i
		}
	}
	return best
}
