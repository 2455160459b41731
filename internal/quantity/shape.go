package quantity

import brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"

// NodeShape is a number of nodes with the same labels that have at least the same amounts free. If
// Free names pods, every pod takes one of them.
type NodeShape struct {
	Count int64   `json:"count"`
	Free  Amounts `json:"free"`
	// Labels are the labels of these nodes that the cluster publishes. They must not be changed.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the offered taints of these nodes, sorted. They must not be changed.
	Taints []brokerv1alpha1.Taint `json:"taints,omitempty"`
}
