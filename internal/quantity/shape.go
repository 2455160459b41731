package quantity

import brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"

// NodeShape describes Count nodes of a cluster that have the same labels and taints. At least the
// amounts in Free are free on each of these nodes. If Free names the resource pods, every pod on a
// node uses one of them.
type NodeShape struct {
	Count int64   `json:"count"`
	Free  Amounts `json:"free"`
	// Labels are those labels of the nodes that the cluster publishes. The map must not be
	// changed.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are those taints of the nodes that the cluster offers to requests that tolerate them,
	// sorted. The slice must not be changed.
	Taints []brokerv1alpha1.Taint `json:"taints,omitempty"`
}
