// Package queue decides which waiting request is served next, and whose capacity it may take.
//
// A Line orders waiters by priority, then by arrival. Capacity that becomes free on a cluster
// goes to the first waiter whose needs fit. So a later, smaller waiter overtakes one that does
// not fit, and no waiter overtakes one that does.
//
// Waiters of one class have the same needs and can be served by the same clusters, so only the
// first of each class is examined. The first waiters of all classes form a tree. Every branch
// stores the least that any waiter in it needs, so the search skips branches in which no waiter
// fits. The cost of a change grows with the number of classes that nearly fit, not with the
// number of waiters.
//
// Everything here is a function of its arguments: no clock, no I/O, no logging.
package queue
