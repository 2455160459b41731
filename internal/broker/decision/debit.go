package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Commitment is capacity that was promised but is not in use yet, so that the provider's nodes
// still report it as free.
type Commitment struct {
	Amounts quantity.Amounts
	// Pods are the promised pod shapes; none means any shape.
	Pods []brokerv1alpha1.PodShape
	// Nodes are the labels of the nodes from which the capacity was promised.
	Nodes map[string]brokerv1alpha1.LabelValue
	// Tolerations are the tolerations of the promised pods.
	Tolerations []brokerv1alpha1.Toleration
}

// mayUse reports whether the promised pods may run on the nodes of a shape.
func (c *Commitment) mayUse(s *quantity.NodeShape) bool {
	return requirements.TolerateAll(c.Tolerations, s.Taints) && requirements.HasAll(s.Labels, c.Nodes)
}

// Debit subtracts commitments from the free room on a cluster's nodes and returns what is left for
// the next request. It places promised pods on the first nodes on which they fit. Amounts without
// pod shapes are taken from the nodes with the most room, because the Kubernetes scheduler spreads
// pods. Debit does not change shapes.
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

// debitPods places as many of count equal pods as fit, and returns the remaining room and how many
// pods it placed. It may change shapes.
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

// debitAmount deducts an amount of one resource, beginning with the nodes that have the most of it
// free, and returns the remaining room. It may change shapes.
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
