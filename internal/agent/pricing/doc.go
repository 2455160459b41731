// Package pricing computes a cluster's prices from the prices of its nodes, which are in labels of
// the nodes or in OpenCost's metrics.
//
//	labels of lent nodes ──┐
//	                       ├──mean──▶ prices ──▶ advertisement
//	OpenCost's metrics ────┘          (or why there are none)
//
// The price of a resource is the mean of the lent nodes' prices, weighted by their allocatable
// amounts, so a reservation of everything costs what all nodes together cost. Nodes without a valid
// price are left out of the mean. If lent nodes have a resource for which none of them has a price,
// the cluster has no prices at all: otherwise it would lend that resource for nothing.
package pricing
