// Package queue decides which waiting request is served next, and whose capacity it may take.
//
// A Line orders waiters by priority, then by arrival. Capacity that becomes free on a cluster
// goes to the first waiter whose needs fit. So a smaller waiter may overtake an earlier one
// whose needs do not fit, but never one whose needs fit.
//
// Waiters of one class have the same needs and can be served by the same clusters, so only the
// first of each class is examined. The first waiters of all classes form a tree. Every branch
// stores, for each resource, the least that any waiter in it needs, so the search skips branches
// in which no waiter can fit. The cost of a search grows with the number of classes that nearly
// fit, not with the number of waiters.
//
// The results depend only on the arguments: the package reads no clock, does no I/O and does not
// log.
package queue
