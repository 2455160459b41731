package broker

import (
	"fmt"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// offeredNodes is what a lender says about its nodes. The lenders of a simulation have one node each. A request that
// may use the node therefore finds all the lender's free capacity there.
type offeredNodes struct {
	// told is false for a lender that describes no nodes. Its nodes have no labels and no taints.
	told bool
	// label is the value of the node's label "disk", and taint the value of its taint "dedicated"; "" for none.
	label, taint string
}

func anyNodes(c choose) offeredNodes {
	if c(3) > 0 {
		return offeredNodes{}
	}
	return offeredNodes{told: true, label: oneOf(c, "", "ssd", "hdd"), taint: oneOf(c, "", "batch", "batch", "gpu")}
}

// describe adds the node to an advertisement. It must be called after all other fields are set.
func (n offeredNodes) describe(adv *v1.Advertisement) {
	if !n.told {
		return
	}
	left := amountsOf(adv.Allocatable).Sub(amountsOf(adv.Allocated))
	for _, u := range adv.Usage {
		left = left.Sub(amountsOf(u.Used))
	}
	adv.NodeShapes = []v1.NodeShape{n.shape(1, written(left.Max(nil)))}
}

func (n offeredNodes) shape(count int32, free v1.Amounts) v1.NodeShape {
	shape := v1.NodeShape{Count: count, Free: free}
	if n.label != "" {
		shape.NodeLabels = v1.Labels{"disk": n.label}
	}
	if n.taint != "" {
		shape.Taints = []brokerv1alpha1.Taint{{Key: "dedicated", Value: brokerv1alpha1.LabelValue(n.taint), Effect: "NoSchedule"}}
	}
	return shape
}

// anyPlace makes some requests select nodes or tolerate taints.
func anyPlace(c choose, r *v1.ReservationRequest) {
	wanted := v1.Constraints{}
	if c(10) == 0 {
		wanted.NodeSelector = map[string]brokerv1alpha1.LabelValue{"disk": oneOf[brokerv1alpha1.LabelValue](c, "ssd", "hdd")}
	}
	switch c(6) {
	case 0:
		wanted.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated", Value: oneOf[brokerv1alpha1.LabelValue](c, "batch", "gpu")}}
	case 1:
		wanted.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
	case 2:
		wanted.Tolerations = []brokerv1alpha1.Toleration{{Key: "other", Operator: "Exists"}}
	}
	if len(wanted.NodeSelector)+len(wanted.Tolerations) == 0 {
		return
	}
	if r.Constraints != nil {
		wanted.MaxPrice = r.Constraints.MaxPrice
	}
	r.Constraints = &wanted
}

// suits reports whether the pods of a request may run on a lender's node.
func (o *oracle) suits(request *v1.ReservationRequest, id string) bool {
	node, wanted := o.lenders[id].nodes, request.Constraints
	if wanted == nil {
		wanted = &v1.Constraints{}
	}
	if disk := wanted.NodeSelector["disk"]; disk != "" && string(disk) != node.label {
		return false
	}
	return node.taint == "" || slices.ContainsFunc(wanted.Tolerations, func(t brokerv1alpha1.Toleration) bool {
		return t.Key == "dedicated" && (t.Operator == "Exists" || string(t.Value) == node.taint)
	})
}

// dependsOnNodes reports whether a request needs room on certain nodes of a lender. Such a request preempts nothing
// there, because the broker does not know how much of the node the victims would free.
func (o *oracle) dependsOnNodes(request *v1.ReservationRequest, id string) bool {
	return o.lenders[id].nodes.taint != "" || request.Constraints != nil && len(request.Constraints.NodeSelector) > 0
}

// suited returns an error if a placement went to a node that its pods may not use.
func (o *oracle) suited(request *v1.ReservationRequest, id string) error {
	if o.suits(request, id) {
		return nil
	}
	return fmt.Errorf("%s has the node %+v, which pods with %+v may not use", id, o.lenders[id].nodes, request.Constraints)
}
