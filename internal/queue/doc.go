// Package queue says who of those that wait is served next, and whose place it may
// take.
//
// A Line holds the waiters in order: the higher priority first, then who came first.
// What becomes free on a cluster goes to the first whose needs fit into it. So a
// later, smaller one passes one that does not fit, and none passes one that does.
//
// Waiters of one class have the same needs and can be served by the same clusters:
// only the first of a class is ever looked at. The first of all classes stand in a
// tree of which every branch knows the least that anybody in it needs, so that
// branches in which nobody fits are passed over. What one change costs grows with
// the classes that are nearly served, not with how many wait.
//
// Everything here is a function of its arguments: no clock, no I/O, no logging.
package queue
