// Package pricing makes the prices of a cluster from those of its nodes, which stand in
// their labels or are asked of OpenCost.
//
//	labels of lent nodes ──┐
//	                       ├──mean──▶ prices ──▶ whoever advertises
//	OpenCost's metrics ────┘          (or why there are none)
//
// The price of a resource is the mean of what the lent nodes say, weighted by how much of
// it each has allocatable: whoever reserves everything pays what its nodes say in all. A
// node that says nothing, or no price, is left out of the mean. Prices are taken together:
// where lent nodes have a resource and none of them says what it costs, there are none,
// since a resource without a price beside priced ones would be lent for nothing.
package pricing
