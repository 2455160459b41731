// Package pricing derives a cluster's prices from those of its nodes, which are in node labels
// or in OpenCost's metrics.
//
//	labels of lent nodes ──┐
//	                       ├──mean──▶ prices ──▶ advertisement
//	OpenCost's metrics ────┘          (or why there are none)
//
// The price of a resource is the mean over the lent nodes, weighted by their allocatable
// amount: a reservation of everything costs the sum over all nodes. Nodes without a valid price
// are left out of the mean. If lent nodes have a resource and none of them has a price for it,
// there are no prices at all, because that resource would otherwise be lent for nothing beside
// priced ones.
package pricing
