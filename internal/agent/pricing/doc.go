// Package pricing derives a cluster's prices from those of its nodes, which are in node labels
// or in OpenCost's metrics.
//
// @
//
// The price of a resource is the mean over the lent nodes, weighted by their allocatable
// amount: whoever reserves everything pays the sum of all nodes. Nodes without a valid price
// are left out of the mean. If lent nodes have a resource and none of them has a price for it,
// there are no prices at all, because that resource would otherwise be lent for nothing beside
// priced ones.
package pricing
