package decision

import (
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
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

// selectShapes returns, for each shape, whether the promised pods may run on its nodes.
func (c *Commitment) selectShapes(shapes []quantity.NodeShape) []bool {
	on := make([]bool, len(shapes))
	for i := range shapes {
		on[i] = requirements.TolerateAll(c.Tolerations, shapes[i].Taints) && requirements.HasAll(shapes[i].Labels, c.Nodes)
	}
	return on
}

// Debit subtracts commitments from the free room on a cluster's nodes and returns what is left for
// the next request. It places promised pods on the first nodes on which they fit. Amounts without
// pod shapes are taken from the nodes with the most room, because the Kubernetes scheduler spreads
// pods. Debit does not change shapes.
func Debit(shapes []quantity.NodeShape, commitments []Commitment) []quantity.NodeShape {
	if len(commitments) == 0 {
		return shapes
	}
	var columns packing.Columns
	for i := range shapes {
		columns.Name(shapes[i].Free)
	}
	var nodes packing.Nodes
	nodes.Reset(len(columns))
	for i := range shapes {
		nodes.Add(shapes[i].Count, columns.Free(shapes[i].Free), int32(i))
	}
	for i := range commitments {
		c := &commitments[i]
		rest, on := c.Amounts, c.selectShapes(shapes)
		for k := range c.Pods {
			each := requirements.PodAmounts(&c.Pods[k])
			needs := columns.Needs(each)
			if each[corev1.ResourcePods] <= 0 {
				needs = append(needs, packing.Need{Column: columns.Find(corev1.ResourcePods), Amount: 1, Implied: true})
			}
			placed := nodes.Place(packing.Pod{Needs: needs, On: on}, int64(c.Pods[k].Count))
			rest = rest.Sub(each.Times(placed))
		}
		for _, need := range columns.Needs(rest) {
			if need.Column >= 0 && columns[need.Column] != corev1.ResourcePods {
				nodes.TakeRoomiest(need.Column, need.Amount, on)
			}
		}
	}
	left := make([]quantity.NodeShape, 0, len(shapes))
	nodes.Each(func(count int64, free []int64, class int32) {
		s := &shapes[class]
		amounts := make(quantity.Amounts, len(s.Free))
		for column, amount := range free {
			if amount != packing.NotNamed {
				amounts[columns[column]] = amount
			}
		}
		left = append(left, quantity.NodeShape{Count: count, Free: amounts, Labels: s.Labels, Taints: s.Taints})
	})
	return left
}
